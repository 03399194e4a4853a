"""`dump-log`: every file kind and form, filters, decoders, damage and bad input; whole outputs are goldens.

That the text is that of Kafka's own tool is shown in `tests/interop/test_dump_log.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.compression import Codec
from kcli.protocol.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.storage.checkpoints import write_epochs, write_offsets, write_partition_metadata
from kcli.storage.log_paths import TopicPartition
from tests.commands.conftest import Transcript
from tests.conftest import Finished
from tests.support.log_files import (
    PAIRS,
    batch_of,
    consumer_members,
    formats,
    framed,
    quorum,
    segment,
    write_internal_topics,
)

Kcli = Callable[..., Finished]

KEYED: list[tuple[bytes | None, bytes | None]] = [
    (b"a", b'{"n": 1}'),
    (b"b", b"plain"),
    (b"a", None),
    (None, b"\x00\x01"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def orders(directory: Path) -> Path:
    """The replica `orders-0`: two segments, a transaction that is committed and one that is open."""
    replica = directory / "orders-0"
    producer = {"producer_id": 7, "producer_epoch": 1, "is_transactional": True}
    marker = EndTxnMarker(ControlRecordType.COMMIT, 3)
    commit = end_txn_batch(
        marker, timestamp=1_700_000_000_500, producer_id=7, producer_epoch=1, base_offset=4, leader_epoch=3
    )
    first = [batch_of(KEYED, 0, base_sequence=0, **producer), bytes(commit)]
    segment(replica, first)
    second = [
        batch_of(KEYED, 5, codec=Codec.GZIP),
        batch_of(KEYED[:2], 12, base_sequence=4, **producer),
    ]
    segment(replica, second, 5)
    segment(replica, [bytes(4), (len(first[0])).to_bytes(4, "big")][:0], 5, ".index")
    write_epochs(str(replica / "leader-epoch-checkpoint"), [(3, 0)])
    write_partition_metadata(str(replica), bytes(range(16)))
    return replica


def log_directory(directory: Path) -> Path:
    """A log directory with a few replicas, one of them deleted, and the files beside them."""
    data = directory / "data"
    data.mkdir()
    orders(data)
    segment(data / "orders-1", [batch_of(KEYED)])
    segment(data / "other-0", [batch_of(KEYED)])
    segment(data / f"gone-0.{'0' * 32}-delete", [batch_of(KEYED)])
    write_offsets(str(data / "recovery-point-offset-checkpoint"), {TopicPartition("orders", 0): 14})
    (data / "meta.properties").write_text(
        "#\nversion=1\nnode.id=3\ncluster.id=10PS7KEtSkWEtrRRtY6qKA\ndirectory.id=Hz_-APEL7nFRgOmi52JNrw\n"
    )
    (data / "notes.txt").write_text("not of Kafka")
    return data


def objects(finished: Finished) -> list[dict[str, Any]]:
    """The objects of a JSON dump."""
    return [json.loads(line) for line in finished.out.splitlines()]


def types(finished: Finished) -> list[str]:
    """The types of the objects of a JSON dump."""
    return [each["type"] for each in objects(finished)]


def records(finished: Finished) -> list[int]:
    """The offsets of the records in a JSON dump."""
    return [each["offset"] for each in objects(finished) if each["type"] == "record"]


def test_a_replica_in_every_form(here: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.commands.dump.complaints.absolute", lambda path: f"/here/{path}")
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


FILTERS: list[tuple[str, tuple[str, ...], list[int]]] = [
    ("from an offset on", ("--from-offset", "3"), [3, 4, 5, 6, 7, 8, 12, 13]),
    ("before an offset", ("--to-offset", "2"), [0, 1]),
    ("a range of offsets", ("--from-offset", "2", "--to-offset", "6"), [2, 3, 4, 5]),
    ("from a time on", ("--from-time", "1700000000140"), [2, 4, 7]),
    ("before a time", ("--to-time", "2023-11-14T22:13:20.000Z"), [1, 6, 13]),
    ("a key", ("--key", "a"), [0, 2, 5, 7, 12]),
    ("a key in hexadecimal", ("--key", "hex:62"), [1, 6, 13]),
    ("a key in base64", ("--key", "base64:Yg=="), [1, 6, 13]),
    ("no such key", ("--key", "z"), []),
    ("a producer", ("--producer-id", "7"), [0, 1, 2, 3, 4, 12, 13]),
    ("control records", ("--control-only",), [4]),
    ("transactions", ("--transactional-only", "--from-offset", "4"), [4, 12, 13]),
]


@pytest.mark.parametrize(("flags", "expected"), [row[1:] for row in FILTERS], ids=[row[0] for row in FILTERS])
def test_filters(here: Path, kcli: Kcli, flags: tuple[str, ...], expected: list[int]) -> None:
    orders(here)
    finished = kcli("dump-log", "orders-0", "--kind", "log", "-o", "json", "--deep-iteration", *flags)
    assert records(finished) == expected
    assert finished.exit_code == 0
    text = kcli("dump-log", "orders-0", "--kind", "log", "-o", "text", "--print-data-log", *flags)
    shown = [int(line.split()[2]) for line in text.out.splitlines() if line.startswith("| offset:")]
    assert shown == expected
    assert text.err == ""


def test_filters_choose_batches_where_no_records_are_shown(here: Path, kcli: Kcli) -> None:
    orders(here)
    shown = kcli("dump-log", "orders-0", "--kind", "log", "-o", "json", "--key", "b", "--from-offset", "5")
    assert [each["base_offset"] for each in objects(shown) if each["type"] == "batch"] == [5, 12]


DECODERS: list[tuple[str, str, object]] = [
    ("string", "string", "\x00\x00\x00\x2a"),
    ("hex", "hex", "0000002a"),
    ("base64", "base64", "AAAAKg=="),
    ("int", "int", 42),
    ("a class of Kafka", "org.apache.kafka.tools.api.IntegerDecoder", 42),
    ("an older class of Kafka", "kafka.serializer.DefaultDecoder", "0000002a"),
    ("a function", "python:decoding.size", {"size": 4}),
    ("what it is not", "long", {"error": "4 bytes, not 8", "base64": "AAAAKg=="}),
    ("a function that fails", "python:decoding.fail", {"error": "no", "base64": "AAAAKg=="}),
]


@pytest.mark.parametrize(
    ("name", "expected"), [row[1:] for row in DECODERS], ids=[row[0] for row in DECODERS]
)
def test_decoders(
    here: Path, kcli: Kcli, monkeypatch: pytest.MonkeyPatch, name: str, expected: object
) -> None:
    (here / "decoding.py").write_text(
        "def size(data):\n    return {'size': len(data)}\n\n\ndef fail(data):\n    raise RuntimeError('no')\n"
    )
    monkeypatch.syspath_prepend(str(here))
    segment(here / "x-0", [batch_of([(b"key", b"\x00\x00\x00\x2a")])])
    finished = kcli("dump-log", "x-0", "-o", "json", "--value-decoder", name)
    (record,) = (each for each in objects(finished) if each["type"] == "record")
    assert record["key"] == "key"
    assert record["value"] == expected
    failed = isinstance(expected, dict) and "error" in expected
    assert finished.exit_code == (1 if failed else 0)
    assert ("not what the decoder reads: 1 value" in finished.err) == failed
    text = kcli("dump-log", "x-0", "-o", "text", "--skip-record-metadata", "--value-decoder-class", name)
    shown = expected if isinstance(expected, str) else json.dumps(expected, separators=(",", ":"))
    assert f"| key: key payload: {shown}\n" in text.out


def test_json_values_are_documents(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [batch_of([(None, b'{"a": [1, "\xc3\xa9"]}')])])
    shown = kcli("dump-log", "x-0", "-o", "json", "--value-decoder", "json")
    assert objects(shown)[-1]["value"] == {"a": [1, "é"]}
    text = kcli("dump-log", "x-0", "-o", "text", "--value-decoder", "json", "--skip-record-metadata")
    assert text.out.splitlines()[-1] == '| payload: {"a":[1,"é"]}'


def test_internal_topics(here: Path, transcript: Transcript) -> None:
    directories = write_internal_topics(here)
    segment(here / "groups-0", [batch_of(consumer_members())])
    segment(here / "quorum-0", quorum())
    transcript(
        "dump_log_internal_topics",
        *(
            f"dump-log {path.parent.name} {option} --skip-record-metadata -o text --to-offset 6"
            for option, path in directories.items()
        ),
        "dump-log groups-0 --offsets-decoder -o json --to-offset 2",
        "dump-log __cluster_metadata-0 --cluster-metadata-decoder -o json --to-offset 1",
        "dump-log __remote_log_metadata-0 --remote-log-metadata-decoder -o json --to-offset 1",
        "dump-log quorum-0 --print-data-log -o json --control-only",
    )


def test_records_from_the_future_and_damaged_ones_are_shown_raw(here: Path, kcli: Kcli) -> None:
    segment(
        here / "x-0",
        [batch_of([(b"\0\x63k", b"v"), (b"\0\2\0", b"v"), (None, b"v"), (b"\0\2\0\1g", b"\0\x09")])],
    )
    shown = kcli("dump-log", "x-0", "--offsets-decoder", "-o", "json")
    keys = [each["key"] for each in objects(shown) if each["type"] == "record"]
    assert [key["note"].split(":")[0] for key in keys] == [
        "a coordinator's record of unknown type",
        "Could not read record with version 2 from key's buffer due to",
        "a record without a key",
        "Found an unknown record version 9 for 2 type",
    ]
    assert keys[0]["raw"] == "\0ck"
    assert shown.exit_code == 1
    assert "not what the decoder reads: 2 values" in shown.err


DAMAGE = ("flip", "size", "magic", "cut", "tail", "zeros", "garbage", "twice", "records")


def damaged(how: str) -> bytes:
    """Three batches, the second of which is damaged."""
    batches = [batch_of(KEYED, number * 4) for number in range(3)]
    second = bytearray(batches[1])
    match how:
        case "flip":
            second[70] ^= 1
        case "size":
            second[8] = 0x7F
        case "magic":
            second[16] = 9
        case "cut":
            return batches[0] + batches[1][:100]
        case "tail":
            return b"".join(batches) + b"tail"
        case "zeros":
            return b"".join(batches) + bytes(5000)
        case "garbage":
            return batches[0] + b"x" * 100 + batches[1] + batches[2]
        case "twice":
            return batches[0] + batches[1] + batches[1] + batches[2]
        case "records":
            from kcli.protocol.record_batch_header import update_crc

            second[61] = 0x7F
            update_crc(second, 0)
    return b"".join([batches[0], bytes(second), batches[2]])


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_explained(
    here: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("kcli.commands.dump.complaints.absolute", lambda path: f"/here/{path}")
    segment(here / "x-0", [damaged(how)])
    flags = " --deep-iteration" if how == "records" else ""
    transcript(
        f"dump_log_damage_{how}",
        f"dump-log x-0 -o text{flags}",
        f"dump-log x-0 -o json{flags} --continue",
        "dump-log x-0 --summary -o text --continue",
    )


def test_repair(here: Path, transcript: Transcript) -> None:
    segment(here / "x-0", [damaged("garbage")])
    segment(here / "x-0", [batch_of(KEYED, 12)], 12)
    transcript(
        "dump_log_repair",
        "dump-log x-0 --repair cut -o text",
        "dump-log x-0 --repair carved --continue -o table",
        f"dump-log x-0/{0:020}.log --repair one --continue -o json",
        "dump-log carved/x-0 -o text",
        "dump-log x-0 --repair carved",
    )


def test_originals_are_never_written(here: Path, kcli: Kcli) -> None:
    data = log_directory(here)
    segment(data / "x-0", [damaged("garbage")])
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()
    }
    for path in before:
        path.chmod(0o444)
    kcli("dump-log", "data", "--print-data-log")
    kcli("dump-log", "data", "--repair", "out", "--continue")
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()
    }


def test_a_log_that_grows_is_read_to_its_valid_end(here: Path, kcli: Kcli) -> None:
    whole = batch_of(KEYED)
    log = segment(here / "x-0", [whole])
    with log.open("ab") as writer:
        writer.write(whole[:30])
        writer.flush()
        finished = kcli("dump-log", "x-0", "-o", "json")
    assert types(finished) == ["file", "batch", "damage"]
    log.write_bytes(whole)
    assert kcli("dump-log", "x-0", "-o", "json").exit_code == 0


@pytest.mark.parametrize("flags", [(), ("--print-data-log",)], ids=["batches", "records"])
def test_a_log_that_is_being_written_has_nothing_wrong(
    here: Path, kcli: Kcli, flags: tuple[str, ...]
) -> None:
    log = segment(here / "x-0", [])

    def write() -> None:
        with log.open("ab", buffering=0) as file:
            for number in range(600):
                file.write(batch_of([(b"k", b"v" * 5000)] * 4, 4 * number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        is_written = False
        while not is_written:
            is_written = not writer.is_alive()
            finished = kcli("dump-log", str(log), "-o", "text", *flags)
            assert finished.exit_code == 0, finished.err
            assert finished.err == ""
            assert "invalid" not in finished.out.replace("isvalid: true", "")
    finally:
        writer.join()


BAD_INPUT: list[tuple[str, tuple[str, ...], int, str]] = [
    ("nothing", (), 2, "missing argument `PATH...`"),
    (
        "a file that is missing",
        ("x-0/00000000000000000000.log",),
        1,
        "cannot read `x-0/00000000000000000000.log`: No such file or directory",
    ),
    (
        "a directory that is missing",
        ("nowhere-0",),
        1,
        "cannot read `nowhere-0`: No such file or directory",
    ),
    ("a directory without segments", ("empty",), 2, "no file of a log here that is wanted: `empty`"),
    ("a name without an offset", ("copy.log",), 2, "the name does not begin with an offset: `copy.log`"),
    (
        "a snapshot's name",
        ("1-2.checkpoint",),
        2,
        "the name does not tell offset and epoch: `1-2.checkpoint`",
    ),
    ("some other file", ("notes.txt",), 2, "not a file of a log directory: `notes.txt`"),
    (
        "an index without its log",
        ("00000000000000000007.index",),
        1,
        "cannot read `00000000000000000007.log`: No such file or directory",
    ),
    ("an unknown decoder", ("empty", "--value-decoder", "xml"), 2, "there is no decoder `xml`"),
    (
        "a function that is not there",
        ("empty", "--key-decoder", "python:os.nothing"),
        2,
        "cannot load the decoder `os.nothing`",
    ),
    ("two decoders", ("empty", "--offsets-decoder", "--key-decoder", "hex"), 2, "more than one decoder"),
    ("an unknown kind", ("empty", "--kind", "logs"), 2, "there is no kind of file like that: 'logs'"),
    ("a time that is none", ("empty", "--from-time", "noon"), 2, "noon"),
    ("a key that is not hexadecimal", ("empty", "--key", "hex:xyz"), 2, "`--key` is no hex: xyz"),
    (
        "a copy and a summary",
        ("empty", "--repair", "out", "--summary"),
        2,
        "`--repair` and `--summary` exclude each other",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"), [row[1:] for row in BAD_INPUT], ids=[row[0] for row in BAD_INPUT]
)
def test_bad_input(here: Path, kcli: Kcli, arguments: tuple[str, ...], exit_code: int, message: str) -> None:
    (here / "empty").mkdir()
    for name in ("copy.log", "1-2.checkpoint", "notes.txt", f"{7:020}.index"):
        (here / name).write_bytes(b"")
    finished = kcli("dump-log", *arguments, "-o", "text")
    assert finished.exit_code == exit_code
    errors = [line for line in finished.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_a_pipe_is_not_waited_for(here: Path, kcli: Kcli) -> None:
    for suffix in ("log", "index", "snapshot"):
        os.mkfifo(here / f"{0:020}.{suffix}")
        finished = kcli("dump-log", f"{0:020}.{suffix}")
        assert finished.exit_code == 1
        assert finished.err == f"error: not a regular file: `{0:020}.{suffix}`\n"


def test_a_file_that_may_not_be_read(here: Path, kcli: Kcli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    log = segment(here / "x-0", [batch_of(KEYED)])
    monkeypatch.setattr("kcli.commands.dump.run.SegmentFile", refuse)
    finished = kcli("dump-log", "x-0")
    assert finished.exit_code == 1
    assert finished.err == f"error: cannot read `x-0/{log.name}`: Permission denied\n"


def test_a_file_that_is_no_log_is_damage_from_its_first_byte(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [b"this is a text and no log at all\n" * 9])
    finished = kcli("dump-log", "x-0", "-o", "json")
    assert finished.exit_code == 3
    assert [(each["type"], each.get("position")) for each in objects(finished)] == [
        ("file", None),
        ("damage", 0),
    ]


def test_one_file_that_cannot_be_read_does_not_hide_the_others(here: Path, kcli: Kcli) -> None:
    segment(here / "x-0", [batch_of(KEYED)])
    finished = kcli("dump-log", "gone-0/00000000000000000000.log", "x-0", "-o", "json")
    assert types(finished) == ["file", "file", "batch"]
    assert finished.exit_code == 1


@pytest.mark.parametrize("form", ["text", "json", "table"])
def test_a_reader_that_has_had_enough_ends_the_dump_quietly(here: Path, form: str) -> None:
    segment(here / "x-0", [batch_of(KEYED, 4 * number) for number in range(20_000)])
    command = [sys.executable, "-m", "kcli", "dump-log", "x-0", "x-0", "--print-data-log", "-o", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


def test_a_full_disk_is_not_blamed_on_the_log(here: Path) -> None:
    segment(here / "x-0", [batch_of(KEYED, 4 * number) for number in range(2000)])
    command = [sys.executable, "-m", "kcli", "dump-log", "x-0", "-o", "text"]
    with open("/dev/full", "wb") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert process.returncode == 1
    assert process.stderr == b"error: cannot write the output: no space left on the device\n"


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
    from kcli.protocol.metadata_records import METADATA_RECORDS

    segment(here / "x-0", [batch_of(framed(METADATA_RECORDS.values()))])
    finished = kcli("dump-log", "x-0", "--cluster-metadata-decoder", "-o", "json")
    shown = {each["value"]["type"] for each in objects(finished) if each["type"] == "record"}
    assert {"TOPIC_RECORD", "PARTITION_CHANGE_RECORD", "NO_OP_RECORD", "CLEAR_ELR_RECORD"} < shown
    assert len(shown) == len(METADATA_RECORDS)
