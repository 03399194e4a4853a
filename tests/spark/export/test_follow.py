"""Following in virtual time: when plans are made, how large they are, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcli.client.network.bootstrap import Unreachable
from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.engine import Progress
from kcli.spark.export.export_run import follow_export
from kcli.spark.export.log.commit import Summary
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.options import ExportOptions, FollowOptions, Mode
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.source.ranges.trigger_limits import TriggerLimits
from tests.spark.export.exporting import InlineEngine, Watched, offsets_in, options
from tests.spark.export.fake_source import FakeSource
from tests.spark.export.test_resuming import begun

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@dataclass
class World:
    """Virtual time in which a source grows; following ends when its time is over."""

    source: FakeSource
    events: dict[float, Callable[[], object]] = field(default_factory=dict)
    ends_at: float = 100.0
    now: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        if seconds:
            self.pauses.append(seconds)
        for moment in sorted(one for one in self.events if one <= self.now):
            self.events.pop(moment)()
        return self.now >= self.ends_at

    def follow(
        self,
        target: Path,
        follow: FollowOptions,
        *,
        asked: ExportOptions | None = None,
        engine: InlineEngine | None = None,
        progress: Watched | None = None,
    ) -> Summary:
        return follow_export(
            self.source,
            LocalTarget(str(target)),
            asked or options(),
            engine or InlineEngine(),
            progress or Watched(),
            follow=follow,
            clock=lambda: self.now,
            wait=self.wait,
        )


def growing(source: FakeSource, **ends: int) -> dict[float, Callable[[], object]]:
    """Let partition 0 grow: `s10=50` to 50 offsets after 10 seconds."""
    return {
        float(moment[1:]): lambda end=end: source.grow(P0, end)  # type: ignore[misc]
        for moment, end in ends.items()
    }


def ranges(target: Path) -> list[tuple[int, int]]:
    names = sorted(path.name for path in target.rglob("*.parquet"))
    return [(int(name[5:25]), int(name[26:46])) for name in names]


def test_what_comes_is_exported_at_every_interval(tmp_path: Path) -> None:
    source = FakeSource.of(20)
    world = World(source, growing(source, s5=30, s15=40, s16=50, s55=60))
    summary = world.follow(tmp_path, FollowOptions(interval_s=10))
    assert ranges(tmp_path) == [(0, 20), (20, 30), (30, 50), (50, 60)]
    assert summary.committed_plans == (1, 2, 3, 4)
    assert summary.counters.rows == 60
    assert summary.seconds == 100
    assert [(one.start, one.end, one.files) for one in summary.partitions] == [(0, 60, 4)]


def test_too_little_waits_until_it_is_more_or_the_delay_is_over(tmp_path: Path) -> None:
    source = FakeSource.of(20)
    world = World(source, growing(source, s5=25, s25=32, s35=34))
    triggers = TriggerLimits(min_offsets=10, max_delay_ms=40_000)
    world.follow(tmp_path, FollowOptions(interval_s=10, triggers=triggers))
    assert ranges(tmp_path) == [(0, 20), (20, 32), (32, 34)]


def test_a_backlog_is_taken_in_plans_of_a_bounded_size_without_pauses(tmp_path: Path) -> None:
    source = FakeSource.of(300, 100)
    world = World(source, ends_at=10)
    world.follow(tmp_path, FollowOptions(interval_s=10, triggers=TriggerLimits(max_offsets=100)))
    assert world.pauses == [10]
    assert offsets_in(tmp_path) == {P0: list(range(300)), P1: list(range(100))}
    assert (0, 75) in ranges(tmp_path)
    assert (0, 25) in ranges(tmp_path)


class Away(InlineEngine):
    """Finds no broker for a number of runs."""

    def __init__(self, times: int) -> None:
        self.times = times

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        if self.times:
            self.times -= 1
            raise Unreachable("cannot reach localhost:9092")
        super().run(tasks, on_done, progress)


def test_passing_errors_back_off_up_to_five_minutes(tmp_path: Path) -> None:
    world = World(FakeSource.of(20), ends_at=2000)
    told = Watched()
    world.follow(tmp_path, FollowOptions(interval_s=700), engine=Away(11), progress=told)
    assert world.pauses[:11] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert world.pauses[11] == 700
    assert "cannot reach localhost:9092; trying again in 1 s" in told.notes
    assert offsets_in(tmp_path) == {P0: list(range(20))}


def test_other_errors_end_it(tmp_path: Path) -> None:
    source = FakeSource.of(20)
    world = World(source, growing(source, s15=5))
    with pytest.raises(KcliError, match="ends at offset 5"):
        world.follow(tmp_path, FollowOptions(interval_s=10))
    assert offsets_in(tmp_path) == {P0: list(range(20))}


def test_overwriting_replaces_once(tmp_path: Path) -> None:
    World(FakeSource.of(20), ends_at=1).follow(tmp_path, FollowOptions())
    source = FakeSource.of(30)
    world = World(source, growing(source, s15=50))
    world.follow(tmp_path, FollowOptions(interval_s=10), asked=options(mode=Mode.OVERWRITE))
    assert ranges(tmp_path) == [(0, 30), (30, 50)]


def test_a_snapshot_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        World(FakeSource.of(20)).follow(tmp_path, FollowOptions(), asked=options(mode=Mode.SNAPSHOT))


FOLLOWER = """
import sys
from pathlib import Path
from kcli.errors import Interrupted
from kcli.spark.export.engine import NoProgress
from kcli.spark.engines.local_engine import LocalEngine
from kcli.spark.export.export_run import follow_export
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.options import FollowOptions
from tests.spark.export.exporting import options
from tests.spark.export.fake_source import FakeReader, FakeSource

class Says(NoProgress):
    def advanced(self, rows, read_bytes): print("writing", flush=True)
    def finished(self, receipt): print("written", flush=True)

source = FakeSource.of(300, fake_reader=FakeReader(trouble=Path(sys.argv[2])))
try:
    follow_export(source, LocalTarget(sys.argv[1]), options(), LocalEngine(1), Says(), follow=FollowOptions())
except Interrupted as error:
    sys.exit(error.exit_code)
"""


def started(target: Path, trouble: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", FOLLOWER, str(target), str(trouble)]
    # Without a buffer: what a line's reader took of the next ones `communicate` would not see.
    return subprocess.Popen(program, stdout=subprocess.PIPE, bufsize=0, cwd=Path(__file__).parents[3])


@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)])
def test_the_first_signal_lets_the_plan_end_and_the_second_does_not(
    signals: tuple[signal.Signals, ...], tmp_path: Path
) -> None:
    target, held = tmp_path / "lake", tmp_path / "chunk-240"
    held.touch()
    follower = started(target, tmp_path)
    assert follower.stdout
    assert follower.stdout.readline() == b"writing\n"
    for one in signals:
        os.kill(follower.pid, one)
    if len(signals) == 1:
        held.unlink()
    output = follower.communicate(timeout=60)[0]
    if len(signals) == 1:
        assert follower.returncode == 0
        assert output.count(b"written") == 3
        assert offsets_in(target) == {P0: list(range(300))}
    else:
        assert follower.returncode == 130
        assert output.count(b"written") < 3
    World(FakeSource.of(300), ends_at=1).follow(target, FollowOptions())
    assert offsets_in(target) == {P0: list(range(300))}


def test_an_overwriting_plan_that_was_begun_replaces_once(tmp_path: Path) -> None:
    World(FakeSource.of(20), ends_at=1).follow(tmp_path, FollowOptions())
    source = FakeSource.of(300)
    begun(tmp_path, source, mode=Mode.OVERWRITE)
    world = World(source, growing(source, s15=350))
    world.follow(tmp_path, FollowOptions(interval_s=10), asked=options(mode=Mode.OVERWRITE))
    assert offsets_in(tmp_path) == {P0: list(range(350))}
    assert len(ranges(tmp_path)) == 4
