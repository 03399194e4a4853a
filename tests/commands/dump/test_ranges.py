"""A long log dumped by several processes: the text is that of one process, whatever is in the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kcli.commands.dump.segment import SegmentDump, Shown
from kcli.commands.shared.progress import Advance
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import update_crc
from tests.commands.dump.dumped_replicas import KEYED
from tests.conftest import Finished
from tests.support.log_files import PAIRS, batch_of, segment

BATCHES = 300


def batches(**settings: object) -> list[bytes]:
    """Many batches; compaction has taken some."""
    found = [batch_of(PAIRS, 10 * number, **settings) for number in range(BATCHES)]
    del found[40:50]
    return found


def with_flip(sound: list[bytes], *, at: int = 150, fits: bool = False) -> list[bytes]:
    """A wrong byte in a batch far from the ends; the checksum may fit all the same."""
    harmed = bytearray(sound[at])
    harmed[61] ^= 0x3E
    if fits:
        update_crc(harmed, 0)
    return [*sound[:at], bytes(harmed), *sound[at + 1 :]]


def batches_in_records() -> list[bytes]:
    """Records whose values are batches themselves; a range may lie within one."""
    value = b"".join(batches()[:20])
    return [batch_of([(None, value)] * 4, 10 * number) for number in range(8)]


LOGS: dict[str, Callable[[], list[bytes]]] = {
    "sound": batches,
    "compressed": lambda: batches(codec=Codec.ZSTD),
    "cut": lambda: [*batches(), batches()[0][:30]],
    "reserved": lambda: [*batches(), bytes(3000)],
    "wrong checksum": lambda: with_flip(batches()),
    "wrong records": lambda: with_flip(batches(), fits=True),
    "garbage": lambda: [*batches()[:200], b"garbage" * 20, *batches()[200:]],
    "going back": lambda: [*batches()[:200], *batches()[120:]],
    "batches in records": batches_in_records,
    "all garbage": lambda: [b"no batch at all" * 5000],
    "headers only": lambda: [batch_of([], number) for number in range(300)],
}

FLAGS = (
    "",
    "--deep-iteration",
    "--print-data-log",
    "--from-offset 700 --to-offset 1900 --deep-iteration",
    "--value-decoder int",
    "--continue",
    "--continue --print-data-log",
)
FORMS = ("text", "json", "table")
"""Every two of log, flags and form meet."""


@cache
def log_named(name: str) -> list[bytes]:
    """One of the logs, made when it is first asked for."""
    return LOGS[name]()


def in_ranges(monkeypatch: pytest.MonkeyPatch, *, count: int) -> None:
    """Have so many processes dump a log, however short, by short ranges."""
    monkeypatch.setattr("kcli.commands.dump.run.LONG_BYTES", 1)
    monkeypatch.setattr("kcli.commands.dump.ranges.LONG_BYTES", 1)
    monkeypatch.setattr("kcli.commands.dump.ranges.RANGE_BYTES", 8192)
    monkeypatch.setattr("kcli.commands.dump.ranges.BATCHES_RANGE_BYTES", 8192)
    monkeypatch.setattr("kcli.commands.dump.range_records.MOST_HELD_BYTES", 5000)
    monkeypatch.setattr("kcli.commands.dump.ranges.processors", lambda: count)


@pytest.mark.parametrize(
    ("flags", "name", "form"),
    [
        (flags, name, FORMS[(turn + number) % len(FORMS)])
        for turn, flags in enumerate(FLAGS)
        for number, name in enumerate(LOGS)
    ],
)
def test_several_processes_print_what_one_does(
    tmp_path: Path,
    kcli: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str,
    flags: str,
) -> None:
    log = segment(tmp_path / "x-0", log_named(name))
    alone = kcli("dump-log", str(log), "-o", form, *flags.split())
    in_ranges(monkeypatch, count=3)
    assert kcli("dump-log", str(log), "-o", form, *flags.split()) == alone


@pytest.mark.parametrize("harmed_at", range(98, 103))
def test_a_range_may_begin_with_records_that_are_wrong(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch, harmed_at: int
) -> None:
    log = segment(tmp_path / "x-0", with_flip(log_named("sound")[:140], at=harmed_at, fits=True))
    alone = kcli("dump-log", str(log), "-o", "text", "--deep-iteration")
    in_ranges(monkeypatch, count=3)
    assert kcli("dump-log", str(log), "-o", "text", "--deep-iteration") == alone
    assert "position: 82288 " in alone.out  # the last batch


@pytest.mark.parametrize("flags", ["", "--continue"])
def test_behind_damage_several_processes_go_on(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    """Only what is left of the range with the damage in it is read by the process that prints."""
    log = segment(tmp_path / "x-0", log_named("wrong checksum"))
    in_ranges(monkeypatch, count=2)
    monkeypatch.setattr("kcli.commands.dump.ranges.BATCHES_RANGE_BYTES", 4096)
    read: list[int] = []

    def run(self: SegmentDump, advance: Advance, shown: Shown, stop: int | None) -> Shown:
        end = original(self, advance, shown, stop)
        read.append(end.next_position - shown.next_position)
        return end

    original = SegmentDump.run
    monkeypatch.setattr(SegmentDump, "run", run)
    finished = kcli("dump-log", str(log), "-o", "text", *flags.split())
    assert finished.exit_code == 3
    assert len(finished.out.splitlines()) == len(log_named("wrong checksum")) + 2
    assert len(read) == 1
    assert read[0] <= 4096 + len(log_named("wrong checksum")[0])


def test_several_logs_share_the_processes(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [
        str(segment(tmp_path / f"x-{number}", sound))
        for number, sound in enumerate(
            (log_named("sound"), log_named("garbage"), [batch_of(KEYED)], log_named("compressed"))
        )
    ]
    alone = kcli("dump-log", *logs, "-o", "text", "--print-data-log")
    in_ranges(monkeypatch, count=2)
    monkeypatch.setattr("kcli.commands.dump.ranges.LONG_BYTES", 20_000)
    assert kcli("dump-log", *logs, "-o", "text", "--print-data-log") == alone
    assert alone.exit_code == 3


def test_a_process_that_dies_is_an_error(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segment(tmp_path / "x-0", log_named("sound"))
    monkeypatch.setattr("kcli.commands.dump.run.LONG_BYTES", 1)
    monkeypatch.setattr("kcli.commands.dump.ranges.LONG_BYTES", 1)
    monkeypatch.setattr("kcli.commands.dump.ranges.RANGE_BYTES", 8192)
    monkeypatch.setattr("kcli.commands.dump.ranges.BATCHES_RANGE_BYTES", 8192)
    monkeypatch.setattr("kcli.commands.dump.ranges.processors", lambda: 2)
    monkeypatch.setattr("kcli.commands.dump.range_records.RangeRecords.run", lambda *_: exit(3))
    finished = kcli("dump-log", str(log), "-o", "text", "--deep-iteration")
    assert finished.exit_code == 1
    assert finished.err == "error: a process ended before its work was done\n"
