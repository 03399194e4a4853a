"""`kcli verify-index` in several processes: it finds what one does, tells how far it is, and can be ended."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from kcli.forensics.ranges.log_ranges import RangeEnd
from kcli.forensics.verification import log_reader as ranges
from kcli.forensics.verification.findings import PartitionReport, VerificationOptions
from kcli.forensics.verification.log_directory_checks import PartitionOffsets
from kcli.forensics.verification.packed_batches import PackedBatches
from kcli.forensics.verification.targets import Replica
from kcli.forensics.verification.verification_pool import Verification, VerificationPool
from kcli.protocol.compression.codecs import Codec
from tests.conftest import Finished
from tests.forensics.verification.sound_partition import write_partition
from tests.storage.log_harness import NOW_MS, LogHarness
from tests.support.log_files import PAIRS, batch_of, segment
from tests.support.waiting import PATIENCE_SECONDS

HUGE_BYTES = 4 * 1024**4
"""Of zeros, which take no room on a disk, and longer to read than any test waits."""

LOG = f"{0:020d}.log"


def flip(path: Path, position: int) -> None:
    """Make a byte wrong."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x5A
    path.write_bytes(data)


def nothing(directory: Path) -> None:
    """Leave all as it is."""


def flip_batch(directory: Path) -> None:
    flip(directory / LOG, 1200)


def flip_offset_index(directory: Path) -> None:
    flip(directory / LOG.replace(".log", ".index"), 19)


def flip_time_index(directory: Path) -> None:
    flip(directory / LOG.replace(".log", ".timeindex"), 17)


def cut(directory: Path) -> None:
    os.truncate(directory / LOG, 2000)


def lose_a_batch(directory: Path) -> None:
    log = directory / LOG
    data = log.read_bytes()
    first = 12 + int.from_bytes(data[8:12], "big")
    second = first + 12 + int.from_bytes(data[first + 8 : first + 12], "big")
    log.write_bytes(data[:first] + data[second:])


def lose_epochs(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")


HARMS = [nothing, flip_batch, flip_offset_index, flip_time_index, cut, lose_a_batch, lose_epochs]


def fill_idempotent(root: Path) -> Path:
    """A partition of producers without transactions, of several codecs."""
    harness = LogHarness(root)
    for number in range(60):
        codec = list(Codec)[number % 5]
        producer = number % 3, 0, number // 3 * 2
        harness.append(b"a" * 50, b"b" * 50, timestamp=NOW_MS + number, codec=codec, producer=producer)
    harness.stop()
    return harness.directory


@pytest.fixture(params=["transactions", "producers"])
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "transactions":
        return write_partition(tmp_path).directory
    return fill_idempotent(tmp_path)


def verify(directory: Path, jobs: int, *, deep: bool = True) -> PartitionReport:
    task = Verification(str(directory), VerificationOptions(deep=deep), PartitionOffsets())
    with VerificationPool({Replica(str(directory)): 1}, jobs) as pool:
        (report,) = pool.run([task], lambda _: None)
    return report


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_ranges_of_a_log_are_told_as_the_whole(
    partition: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], deep: bool
) -> None:
    harm(partition)
    alone = verify(partition, 1, deep=deep)
    monkeypatch.setattr(ranges, "LONG_BYTES", 1)
    for size in (400, 1000):
        monkeypatch.setattr(ranges, "RANGE_BYTES", size)
        monkeypatch.setattr(ranges, "DEEP_RANGE_BYTES", size)
        assert verify(partition, 3, deep=deep) == alone


def test_behind_damage_several_processes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is left of the range with the damage in it is read by the process that tells of it."""
    log = segment(tmp_path / "orders-0", [batch_of(PAIRS, len(PAIRS) * number) for number in range(300)])
    flip(log, 1200)
    alone = verify(log.parent, 1, deep=False)
    monkeypatch.setattr(ranges, "LONG_BYTES", 1)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 4096)
    read: list[int] = []

    def read_on(wanted: ranges.LogRange, last: RangeEnd) -> Generator[object, None, RangeEnd]:
        end = yield from original(wanted, last)
        read.append(end.next_position - last.next_position)
        return end

    original = ranges.read_on
    monkeypatch.setattr(ranges, "read_on", read_on)
    assert verify(log.parent, 2, deep=False) == alone
    assert sum(read) <= 4096
    assert log.stat().st_size > 10 * 4096


@pytest.mark.parametrize("harm", HARMS)
def test_batches_are_told_together_as_one_by_one(
    partition: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    harm(partition)
    together = verify(partition, 1)
    checks = ("offset_index_check.OffsetIndexCheck.take_run", "time_index_check.TimeIndexCheck.take_run")
    for check in (*checks, "partition_verifier.SegmentVerifier._take_batches"):
        monkeypatch.setattr(f"kcli.forensics.verification.{check}", lambda *_: False)
    assert verify(partition, 1) == together


def test_a_file_that_cannot_be_read_leaves_nothing_behind_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of one log end while its ranges are being told: those of the next begin with its own."""
    directory = fill_idempotent(tmp_path)
    sound = verify(directory, 1)
    monkeypatch.setattr(ranges, "LONG_BYTES", 1)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 500)
    original, failed = PackedBatches.unpack, []

    def unpack(data: bytes, entries: object) -> PackedBatches:
        if not failed:
            failed.append(True)
            raise OSError(5, "Input/output error", "disk")
        return original(data, entries)

    monkeypatch.setattr(PackedBatches, "unpack", unpack)
    report = verify(directory, 2, deep=False)
    assert [each.message for each in report.failures] == ["cannot read `disk`: Input/output error"]
    assert report.batches < sound.batches
    assert {each.path for each in report.findings} <= {each.path for each in sound.findings}


def test_a_process_that_dies_is_told(
    tmp_path: Path, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = fill_idempotent(tmp_path)
    shutil.copytree(directory, tmp_path / "orders-1")
    monkeypatch.setattr("kcli.forensics.verification.verification_pool.scan_range", lambda *_: os._exit(3))
    monkeypatch.setattr(ranges, "LONG_BYTES", 1)
    finished = kcli("verify-index", "-j", "2", str(directory))
    assert (finished.exit_code, finished.err) == (1, "error: a process ended before its work was done\n")
    monkeypatch.setattr(Verification, "run", lambda *_: os._exit(3))
    finished = kcli("verify-index", "-j", "2", str(tmp_path))
    assert finished.exit_code == 1
    assert finished.err.startswith(f"error: a process ended while it was at `{tmp_path}/orders-")


@pytest.mark.parametrize("mode", ["--rebuild", "--compare"])
def test_replicas_are_indexed_and_compared_in_several_processes(
    tmp_path: Path, kcli: Callable[..., Finished], mode: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    directory = fill_idempotent(data)
    for number in range(1, 4):
        shutil.copytree(directory, data / f"orders-{number}")
    other = shutil.copytree(data, tmp_path / "other") if mode == "--compare" else tmp_path / "out"
    alone = kcli("verify-index", str(data), mode, str(other), "-j", "1", "-o", "text")
    written = {path.relative_to(other): path.read_bytes() for path in other.rglob("*.*index")}
    if mode == "--rebuild":
        shutil.rmtree(other)
    assert kcli("verify-index", str(data), mode, str(other), "-j", "3", "-o", "text") == alone
    assert {path.relative_to(other): path.read_bytes() for path in other.rglob("*.*index")} == written
    assert alone.exit_code == 0
    assert written
    if mode == "--rebuild":
        again = kcli("verify-index", str(data), mode, str(other), "-j", "3")
        assert again.exit_code == 2
        assert "is not empty" in again.err


# --- on a terminal, and interrupted


class Running:
    """The program as a process, its standard error a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.screen = b""
        self._terminal, theirs = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kcli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
            start_new_session=True,
        )
        os.close(theirs)

    def wait_for(self, text: bytes) -> None:
        """Wait until the terminal shows a text."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen:
            assert select.select([self._terminal], [], [], max(end - time.monotonic(), 0))[0], self.screen
            self.screen += os.read(self._terminal, 65536)

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code. No process may be left."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Wait for the end and return the exit code. No process may be left."""
        assert self.process.stdout is not None
        self.out = self.process.stdout.read()
        code = self.process.wait(PATIENCE_SECONDS)
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        while True:
            try:
                self.screen += os.read(self._terminal, 65536)
            except OSError:  # the other end is closed
                return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._terminal)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin(*arguments: str) -> Running:
        running.append(Running(*arguments))
        return running[-1]

    yield begin
    for each in running:
        each.close()


def test_a_terminal_shows_how_far_it_is_and_nothing_in_the_end(
    tmp_path: Path, start: Callable[..., Running]
) -> None:
    directory = fill_idempotent(tmp_path)
    running = start("verify-index", "-o", "text", str(directory))
    assert running.end() == 0
    assert b"verifying" in running.screen
    assert b"\x1b[2K" in running.screen  # the line is erased
    assert running.out.decode().endswith(": no problems, 1 note\n")
    assert b"\x1b" not in running.out


@pytest.mark.parametrize("command", ["verify-index", "dump-log"])
def test_an_interrupt_ends_what_reads_one_log(
    tmp_path: Path, start: Callable[..., Running], command: str
) -> None:
    directory = fill_idempotent(tmp_path)
    os.truncate(directory / LOG, HUGE_BYTES)
    running = start(command, str(directory))
    running.wait_for(b"verifying" if command == "verify-index" else b"dump-log")
    assert running.interrupt() == 130
    assert b"interrupted" in running.screen


def test_an_interrupt_ends_what_reads_several_replicas(tmp_path: Path, start: Callable[..., Running]) -> None:
    directory = fill_idempotent(tmp_path)
    for number in (1, 2):
        shutil.copytree(directory, tmp_path / f"orders-{number}")
        os.truncate(tmp_path / f"orders-{number}" / LOG, HUGE_BYTES)
    running = start("verify-index", "-o", "text", str(tmp_path), "-j", "2")
    assert running.process.stdout is not None
    assert b"orders-0" in running.process.stdout.readline()  # the others are being read
    assert running.interrupt() == 130
    assert b"interrupted" in running.screen
