"""`kcli verify-index`: its output in every form, its exit codes, and its processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.forensics.verification.findings import VerificationOptions
from kcli.forensics.verification.log_directory_checks import PartitionOffsets
from kcli.forensics.verification.targets import Replica
from kcli.forensics.verification.verification_pool import Verification, VerificationPool
from kcli.storage.dirs.log_directory import MetaProperties
from tests.conftest import Finished
from tests.storage.log_harness import LogHarness
from tests.support import peak

HUGE_BYTES = 512 * 1024**2
MOST_MEMORY_BYTES = 300 * 1024**2
TIMEOUT_SECONDS = 60

Run = Callable[..., Finished]
Golden = Callable[[str, str], None]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory with one partition of several segments, in the current directory."""
    monkeypatch.chdir(tmp_path)
    harness = LogHarness(tmp_path)
    harness.fill(40)
    harness.stop()
    (tmp_path / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: 4RhFvTlDQKq8HJoOPe1rYQ")
    return tmp_path


def harm(directory: Path) -> None:
    """Do harm of several kinds."""
    log = directory / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[300] ^= 0xFF
    log.write_bytes(data)
    index = log.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[11] ^= 0x40
    index.write_bytes(data)
    times = log.with_suffix(".timeindex")
    data = bytearray(times.read_bytes())
    data[7] ^= 0x01
    times.write_bytes(data + b"\0")
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 4000\n")


@pytest.mark.parametrize("form", ["text", "table", "json"])
def test_findings_are_printed_in_every_form(directory: Path, kcli: Run, golden: Golden, form: str) -> None:
    harm(directory)
    finished = kcli("verify-index", "-o", form, ".")
    assert finished.exit_code == 3
    assert finished.err == ""
    golden(f"cli/verify-index/{form}.txt", finished.out.replace(str(directory), "/data"))


def test_a_clean_directory_ends_with_zero(directory: Path, kcli: Run) -> None:
    for options in ((), ("--deep",), ("--verify-index-only",), ("--index-sanity-check",)):
        finished = kcli("verify-index", *options, "orders-0")
        assert (finished.exit_code, finished.err) == (0, "")
        assert finished.out.splitlines()[-1].endswith(": no problems")


def test_json_is_an_object_a_line_and_the_summary_last(directory: Path, kcli: Run) -> None:
    harm(directory)
    *findings, summary = map(json.loads, kcli("verify-index", "-o", "json", ".").out.splitlines())
    names = ["file", "position", "offset", "kind", "severity", "message"]
    assert all(list(each) == names for each in findings)
    assert summary["errors"] == len(findings)


def test_the_sanity_check_prints_what_kafka_does(directory: Path, kcli: Run) -> None:
    finished = kcli("verify-index", "--index-sanity-check", f"orders-0/{0:020d}.index")
    assert finished.out.splitlines()[0] == f"orders-0/{0:020d}.index passed sanity check."
    (directory / "orders-0" / f"{0:020d}.index").write_bytes(b"")
    finished = kcli("verify-index", "--index-sanity-check", f"orders-0/{0:020d}.index")
    assert finished.out.splitlines()[0] == f"orders-0/{0:020d}.index is empty."
    (directory / "orders-0" / f"{0:020d}.index").write_bytes(b"123")
    assert kcli("verify-index", "--index-sanity-check", "orders-0").exit_code == 3


def test_of_a_single_file_only_its_own_findings_are_told(directory: Path, kcli: Run) -> None:
    harm(directory)
    lines = kcli("verify-index", f"orders-0/{0:020d}.index").out.splitlines()
    assert lines[0] == f"Mismatches in :{directory}/orders-0/{0:020d}.index"
    assert [line for line in lines if ".log" in line or ".timeindex" in line] == []


def test_findings_of_a_file_in_the_current_directory_are_told(
    directory: Path, kcli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    harm(directory)
    (directory / "recovery-point-offset-checkpoint").write_text("no checkpoint")
    assert kcli("verify-index", "recovery-point-offset-checkpoint").exit_code == 3
    monkeypatch.chdir("orders-0")
    for suffix in ("log", "index", "timeindex"):
        finished = kcli("verify-index", f"{0:020d}.{suffix}")
        assert finished.exit_code == 3
        assert f"{0:020d}.{suffix}" in finished.out.splitlines()[0]


BAD_INPUT = {
    "no path": ((), 2, "missing argument `PATH...`"),
    "a missing file": (("nowhere",), 1, "cannot read `nowhere`: No such file or directory"),
    "an empty path": (("empty", ""), 2, "a path is empty"),
    "an empty name of a topic": (("empty", "--topic", ""), 2, "the topic name is empty"),
    "a directory without segments": (("empty",), 2, "no segments in the directory: `empty`"),
    "a file that is not a log": (("notes.txt",), 2, "not a file of a log directory: `notes.txt`"),
    "a name without an offset": (("first.log",), 2, "the name does not begin with an offset: `first.log`"),
    "a topic that is not there": (
        (".", "--topic", "others"),
        2,
        "no segments of what `--topic` asked for: `.`",
    ),
    "one replica for several": (
        (".", "--compare", "orders-0"),
        2,
        "`orders-0` is one replica: compare it with one replica",
    ),
    "modes that exclude each other": (
        ("orders-0", "--rebuild", "out", "--compare", "orders-0"),
        2,
        "`--index-sanity-check`, `--rebuild` and `--compare` exclude each other",
    ),
    "fresh indexes among the old": (
        ("orders-0", "--rebuild", "orders-0"),
        1,
        "`orders-0` is in `orders-0`, which is only read",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_told_in_one_line(case: str, directory: Path, kcli: Run) -> None:
    shutil.copytree("orders-0", "orders-1")
    (directory / "empty").mkdir()
    (directory / "notes.txt").touch()
    (directory / "first.log").touch()
    arguments, exit_code, message = BAD_INPUT[case]
    finished = kcli("verify-index", *arguments)
    assert finished.exit_code == exit_code
    assert finished.err.splitlines()[0] == f"error: {message}"
    assert finished.out == ""


@pytest.mark.parametrize(("make", "why"), [(os.mkdir, "Is a directory"), (os.mkfifo, "not a regular file")])
def test_what_cannot_be_read_ends_with_one(
    make: Callable[[Path], None], why: str, directory: Path, kcli: Run
) -> None:
    log = directory / "orders-0" / f"{0:020d}.log"
    log.unlink()
    make(log)
    finished = kcli("verify-index", "orders-0")
    assert finished.exit_code == 1
    assert finished.err.startswith(f"error: cannot read `orders-0/{0:020d}.log`: {why}\n")


def test_topics_and_identities_are_held_against_each_other(directory: Path, kcli: Run) -> None:
    shutil.copytree("orders-0", "orders-1")
    Path("orders-1/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    Path("meta.properties").write_bytes(MetaProperties("one", None, None).encode(0))
    finished = kcli("verify-index", "-o", "json", ".")
    kinds = [json.loads(line).get("kind") for line in finished.out.splitlines()]
    assert {"topic_id_mismatch", "meta_properties_damaged"} <= {*kinds}
    assert kcli("verify-index", ".", "--topic", "orders", "--partition", "1").exit_code == 3


def test_fresh_indexes_are_written(directory: Path, kcli: Run) -> None:
    finished = kcli("verify-index", "orders-0", "--rebuild", "out", "--index-interval-bytes", "200")
    assert finished.exit_code == 0
    for name in os.listdir("out/orders-0"):
        assert Path("out/orders-0", name).read_bytes() == Path("orders-0", name).read_bytes()
    again = kcli("verify-index", "orders-0", "--rebuild", "out")
    assert (again.exit_code, again.err.splitlines()[0]) == (2, "error: `out/orders-0` is not empty")


def test_indexes_that_cannot_be_written_are_told_as_such(directory: Path, kcli: Run) -> None:
    Path("taken").write_text("a file")
    finished = kcli("verify-index", "orders-0", "--rebuild", "taken")
    assert (finished.exit_code, finished.err) == (
        1,
        "error: cannot write `taken/orders-0`: Not a directory\n",
    )


def test_replicas_are_compared(directory: Path, kcli: Run) -> None:
    shutil.copytree("orders-0", "other/orders-0")
    assert kcli("verify-index", ".", "--compare", "other").exit_code == 0
    log = Path("other/orders-0", f"{0:020d}.log")
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    finished = kcli("verify-index", "orders-0", "--compare", "other/orders-0")
    assert finished.exit_code == 3
    assert "replicas_differ" in finished.out


def test_two_partitions_that_are_compared_are_told_to_be_two(directory: Path, kcli: Run) -> None:
    shutil.copytree("orders-0", "clicks-3")
    shutil.copytree("orders-0", "rescued")
    finished = kcli("verify-index", "orders-0", "--compare", "clicks-3")
    assert finished.exit_code == 0
    assert finished.err == "warning: these are two different partitions: orders-0 and clicks-3\n"
    assert kcli("verify-index", "orders-0", "--compare", "rescued").err == ""


def test_a_directory_that_is_only_named_like_a_replica_is_none(directory: Path, kcli: Run) -> None:
    shutil.rmtree("orders-0")
    Path("dbus-1").mkdir()
    Path("dbus-1", "session.conf").write_text("")
    finished = kcli("verify-index", ".")
    assert finished.exit_code == 2
    assert finished.err.startswith("error: no segments in the directory: `.`\nhint: ")
    Path("dbus-1", f"{0:020d}.log").write_bytes(b"")
    assert "dbus-1" in kcli("verify-index", ".").out


def test_a_replica_without_files_in_a_log_directory_is_told_of(directory: Path, kcli: Run) -> None:
    Path("lost-0").mkdir()
    Path("meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    assert "lost-0" in kcli("verify-index", ".").out


def test_where_no_replica_has_segments_there_was_nothing_to_verify(directory: Path, kcli: Run) -> None:
    shutil.rmtree("orders-0")
    Path("lost-0").mkdir()
    Path("meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for options in ((), ("--deep",), ("--index-sanity-check",), ("--rebuild", "out")):
        finished = kcli("verify-index", ".", *options)
        assert finished.exit_code == 2
        assert "Checked 1 partition, 0 segments, 0 batches, 0 bytes: nothing to verify" in finished.out
        assert finished.err.startswith("error: no segments in the directory: `.`\nhint: ")


def test_of_several_directories_the_replica_without_segments_is_named(directory: Path, kcli: Run) -> None:
    shutil.rmtree("orders-0")
    for name in ("new", "old"):
        Path(name).mkdir()
        Path(name, "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    Path("old", "lost-0").mkdir()
    finished = kcli("verify-index", "new", "old")
    assert finished.exit_code == 2
    assert finished.err.splitlines()[:2] == [
        "warning: no segments in the directory: `new`",
        "error: no segments in the directory: `old/lost-0`",
    ]
    finished = kcli("verify-index", "new", "old", "--topic", "lost")
    assert finished.err == "error: no segments of what `--topic` asked for: `old/lost-0`\n"


@pytest.mark.parametrize("order", [("full", "new"), ("new", "full")])
def test_what_has_no_segments_beside_others_is_warned_of(
    order: tuple[str, str], directory: Path, kcli: Run
) -> None:
    for name in order:
        Path(name).mkdir()
        Path(name, "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    shutil.move("orders-0", "full/orders-0")
    Path("full", "lost-0").mkdir()
    finished = kcli("verify-index", *order)
    assert finished.exit_code == 0
    assert finished.out.splitlines()[-1].startswith("Checked 2 partitions, ")
    assert finished.err.splitlines() == [
        "warning: no segments in the directory: `new`",
        "warning: no segments in the directory: `full/lost-0`",
    ]
    # Who asks for a topic does not expect it in every log directory.
    assert kcli("verify-index", *order, "--topic", "orders").err == ""


def test_every_kind_is_explained(kcli: Run, golden: Golden) -> None:
    finished = kcli("verify-index", "--explain", "-o", "text")
    assert finished.exit_code == 0
    golden("cli/verify-index/explain.txt", finished.out)


def test_of_a_directory_only_the_kinds_that_were_found_are_explained(directory: Path, kcli: Run) -> None:
    sound = kcli("verify-index", "orders-0", "--explain", "-o", "text")
    assert (sound.exit_code, len(sound.out.splitlines())) == (0, 1)
    harm(directory)
    plain = kcli("verify-index", "orders-0", "-o", "text")
    finished = kcli("verify-index", "orders-0", "--explain", "-o", "text")
    assert finished.exit_code == plain.exit_code == 3
    added = [line for line in finished.out.splitlines() if line not in plain.out.splitlines()]
    assert added
    shown = kcli("verify-index", "orders-0", "--explain", "-o", "json")
    rows = [json.loads(line) for line in shown.out.splitlines()]
    found = {row["kind"] for row in rows if "file" in row}
    assert [row["kind"] for row in rows if "advice" in row] == [line.split(" ")[0] for line in added]
    assert {row["kind"] for row in rows if "advice" in row} == found


def test_processes_report_what_one_alone_does(directory: Path) -> None:
    harm(directory)
    for number in range(1, 4):
        shutil.copytree("orders-0", f"orders-{number}")
    directories = [f"orders-{number}" for number in range(4)]
    tasks = [Verification(each, VerificationOptions(deep=True), PartitionOffsets()) for each in directories]
    told: list[int] = []
    with VerificationPool({}, 1) as one:
        alone = list(one.run(tasks, lambda _: None))
    with VerificationPool({Replica(each): 1 for each in directories}, 3) as three:
        together = list(three.run(tasks, told.append))
    assert [each.directory for each in together] == [each.directory for each in alone]
    assert [each.findings for each in together] == [each.findings for each in alone]
    assert sum(told) == sum(each.size_bytes for each in alone)


HUGE_FILES = {
    f"{0:020d}.index": "index_size",
    f"{0:020d}.timeindex": "index_size",
    f"{0:020d}.txnindex": "index_size",
    f"{0:020d}.snapshot": "snapshot_damaged",
    "leader-epoch-checkpoint": "leader_epochs_damaged",
    "partition.metadata": "partition_metadata_damaged",
}


@pytest.mark.parametrize("name", HUGE_FILES)
def test_a_huge_file_is_told_and_not_held_in_memory(directory: Path, name: str) -> None:
    with open(directory / "orders-0" / name, "ab") as file:
        file.truncate(HUGE_BYTES)
        os.pwrite(file.fileno(), b"\x01", HUGE_BYTES - 1)
    command = [sys.executable, "-m", "kcli", "verify-index", "-o", "json", "orders-0"]
    finished = subprocess.run(
        [sys.executable, "-IS", peak.SCRIPT, "peak", *command],
        stdout=subprocess.PIPE,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert finished.returncode == 3
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert HUGE_FILES[name] in {each["kind"] for each in told if each.get("file") == f"orders-0/{name}"}
    assert int(Path("peak").read_text()) < MOST_MEMORY_BYTES
