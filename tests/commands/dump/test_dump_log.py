"""`dump-log`: every file kind and form; whole outputs are goldens.

That the text is that of Kafka's own tool is shown in `tests/interop/test_dump_log.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcli.commands.dump.text_view import TextDump
from kcli.forensics.contents.log_files import DumpFile
from tests.commands.conftest import Transcript
from tests.commands.dump.dumped_replicas import KEYED, Kcli, log_directory, objects, orders
from tests.support.log_files import PAIRS, batch_of, formats, framed, segment


def test_a_replica_in_every_form(here: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.commands.dump.dump_errors.absolute", lambda path: f"/here/{path}")
    orders(here)
    shown = [
        f"dump-log orders-0 -o {form}{deep}"
        for form in ("text", "table", "json")
        for deep in ("", " --print-data-log")
    ]
    transcript("dump_log", *shown)


def test_summaries(here: Path, transcript: Transcript) -> None:
    log_directory(here)
    forms = ("text", "table", "json")
    transcript(
        "dump_log_summary",
        *(f"dump-log data/orders-0 --summary -o {form}" for form in forms),
        "dump-log data --summary -o table --kind log",
    )


def test_directories_and_small_files(here: Path, transcript: Transcript) -> None:
    log_directory(here)
    transcript(
        "dump_log_directory",
        "dump-log data",
        "dump-log data --topic orders --partition 0 --kind log --kind leader-epoch-checkpoint",
        "dump-log data --kind offset-checkpoint --kind meta.properties -o table",
        "dump-log data --kind offset-checkpoint --kind partition.metadata --kind meta.properties -o json",
        "dump-log data --topic missing",
    )


def test_files_on_their_way_out_or_in(here: Path, kcli: Kcli) -> None:
    log = orders(here) / f"{0:020}.log"
    shown = kcli("dump-log", str(log), "-o", "text").out.splitlines()[1:]
    for suffix in (".deleted", ".cleaned", ".swap"):
        moved = Path(f"{log}{suffix}")
        shutil.copy(log, moved)
        finished = kcli("dump-log", str(moved), "-o", "text")
        assert finished.exit_code == 0
        assert finished.out.splitlines() == [f"Dumping {moved}", *shown]


def test_what_compaction_has_replaced_comes_last(here: Path, kcli: Kcli) -> None:
    replica = orders(here)
    log = replica / f"{0:020}.log"
    summary = kcli("dump-log", str(replica), "--summary", "-o", "json").out
    shutil.copy(log, f"{log}.deleted")
    (replica / f"{0:020}.index.deleted").touch()

    def headings(*words: str) -> list[str]:
        lines = kcli("dump-log", *words, "-o", "text").out.splitlines()
        return [line.removeprefix(f"Dumping {replica}/") for line in lines if line.startswith("Dumping ")]

    shown, label = headings(str(replica)), "(deleted, not a part of the log)"
    assert shown[:2] == [f"{0:020}.log", f"{5:020}.log"]
    assert shown[-2:] == [f"{0:020}.log.deleted {label}", f"{0:020}.index.deleted {label}"]
    assert sum(label in line for line in shown) == 2
    table = kcli("dump-log", str(replica), "-o", "table").out
    assert f"{log}.deleted {label}" in table
    assert headings(str(replica), "--kind", "log") == [f"{0:020}.log", f"{5:020}.log"]
    assert headings(f"{log}.deleted", "--kind", "log") == [f"{0:020}.log.deleted"]
    assert kcli("dump-log", str(replica), "--summary", "-o", "json").out == summary


def test_a_file_that_a_broker_takes_away_meanwhile_is_a_note(
    here: Path, kcli: Kcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = orders(here)
    gone = directory / f"{0:020}.index"
    gone.touch()

    def begins(view: TextDump, file: DumpFile) -> None:
        gone.unlink(missing_ok=True)

    monkeypatch.setattr(TextDump, "file_begins", begins)
    finished = kcli("dump-log", str(directory), "-o", "text")
    assert finished.exit_code == 0
    assert finished.err == f"note: `{gone}` is gone: a broker has deleted it, or compacted its log\n"
    assert kcli("dump-log", str(gone), "-o", "text").exit_code == 1


def test_a_data_directory_of_several_nodes(here: Path, kcli: Kcli) -> None:
    log_directory(here)
    for node in ("node-1", "node-2"):
        shutil.copytree(here / "data", here / "all" / node)
    # A topic may have the name of a node's directory.
    segment(here / "data" / "node-1", [batch_of(KEYED)])
    finished = kcli("dump-log", "all", "-o", "text", "--topic", "other", "--kind", "log")
    names = [line for line in finished.out.splitlines() if line.startswith("Dumping")]
    assert names == [f"Dumping all/node-{node}/other-0/{0:020}.log" for node in (1, 2)]
    assert f"Dumping data/node-1/{0:020}.log" in kcli("dump-log", "data", "--topic", "node", "-o", "text").out


def test_kafkas_way_to_name_files(here: Path, kcli: Kcli) -> None:
    first, second = segment(here / "a-0", [batch_of(KEYED)]), segment(here / "b-0", [batch_of(KEYED)])
    assert kcli("dump-log", "--files", f"{first},{second}", "-o", "text") == kcli(
        "dump-log", str(first), str(second), "-o", "text"
    )


def test_every_format_in_json(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", formats())
    finished = kcli("dump-log", "x-0", "-o", "json", "--print-data-log")
    assert finished.exit_code == 0
    shown = [each for each in objects(finished) if each["type"] == "record"]
    assert [each["offset"] for each in shown] == list(range(len(shown)))
    expected = [None if value is None else value.decode(errors="replace") for _, value in PAIRS]
    for start in range(0, len(shown) - 2, len(PAIRS)):
        values = [each["value"] for each in shown[start : start + len(PAIRS)]]
        texts = [value for value in values if not isinstance(value, dict)]
        assert texts == [
            value for value in expected if value is None or "\N{REPLACEMENT CHARACTER}" not in value
        ]


def test_metadata_records_have_the_names_of_their_types(here: Path, kcli: Kcli) -> None:
    from kcli.protocol.internal.metadata_records import METADATA_RECORDS

    segment(here / "x-0", [batch_of(framed(METADATA_RECORDS.values()))])
    finished = kcli("dump-log", "x-0", "--cluster-metadata-decoder", "-o", "json")
    shown = {each["value"]["type"] for each in objects(finished) if each["type"] == "record"}
    assert {"TOPIC_RECORD", "PARTITION_CHANGE_RECORD", "NO_OP_RECORD", "CLEAR_ELR_RECORD"} < shown
    assert len(shown) == len(METADATA_RECORDS)
