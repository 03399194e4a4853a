"""`dump-log`: bad input, files that cannot be read, and readers and disks that take no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.dump.dumped_replicas import KEYED, Kcli, types
from tests.support.log_files import batch_of, segment
from tests.support.waiting import PATIENCE_SECONDS

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
    ("a directory without segments", ("empty",), 2, "no files of a Kafka log in the directory: `empty`"),
    ("an empty path", ("",), 2, "a path is empty"),
    ("an empty name of a topic", ("empty", "--topic", ""), 2, "the topic name is empty"),
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
    ("an unknown decoder", ("empty", "--value-decoder", "xml"), 2, "unknown decoder `xml`"),
    (
        "a function that is not there",
        ("empty", "--key-decoder", "python:os.nothing"),
        2,
        "cannot load the decoder `os.nothing`",
    ),
    ("two decoders", ("empty", "--offsets-decoder", "--key-decoder", "hex"), 2, "more than one decoder"),
    ("an unknown kind", ("empty", "--kind", "logs"), 2, "unknown kind of file `logs`"),
    ("a time that is none", ("empty", "--from-time", "noon"), 2, "noon"),
    ("a key that is not hexadecimal", ("empty", "--key", "hex:xyz"), 2, "`--key` is not hex: xyz"),
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
        assert process.wait(timeout=PATIENCE_SECONDS) == 0


def test_a_full_disk_is_not_blamed_on_the_log(here: Path) -> None:
    segment(here / "x-0", [batch_of(KEYED, 4 * number) for number in range(2000)])
    command = [sys.executable, "-m", "kcli", "dump-log", "x-0", "-o", "text"]
    with open("/dev/full", "wb") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert process.returncode == 1
    assert process.stderr == b"error: cannot write the output: no space left on the device\n"
