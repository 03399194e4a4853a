"""When a log is synced, and up to which offset."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.log_harness import NOW_MS, SMALL, LogHarness


def test_a_flush_raises_the_recovery_point(log: LogHarness) -> None:
    log.fill(10)
    assert log.log.recovery_point == 0
    log.log.flush(now_ms=NOW_MS)
    assert log.log.recovery_point == 10
    assert log.log.plan_flush() is None


def test_appends_during_a_flush_are_not_covered(log: LogHarness) -> None:
    log.fill(10)
    plan = log.log.plan_flush()
    assert plan is not None
    log.fill(30)
    plan.run()
    log.log.commit_flush(plan, now_ms=NOW_MS)
    assert log.log.recovery_point == 10


def test_a_truncation_during_a_flush_voids_it(log: LogHarness) -> None:
    log.fill(40)
    plan = log.log.plan_flush()
    assert plan is not None
    log.log.truncate_to(3, now_ms=NOW_MS)
    log.fill(40)
    log.delete_files(NOW_MS)
    plan.run()
    log.log.commit_flush(plan, now_ms=NOW_MS)
    assert log.log.recovery_point == 0


def test_a_roll_asks_for_a_flush_of_what_was_rolled(log: LogHarness) -> None:
    log.fill(1)
    assert log.log.plan_due_flush(NOW_MS) is None
    log.fill(40)
    plan = log.log.plan_due_flush(NOW_MS)
    assert plan is not None
    plan.run()
    log.log.commit_flush(plan, now_ms=NOW_MS)
    assert log.log.recovery_point == log.bases[-1]
    assert log.log.plan_due_flush(NOW_MS) is None


def test_a_plan_that_was_not_run_is_made_again(log: LogHarness) -> None:
    log.append(b"v" * 1500, producer=(7, 0, 0))
    log.append(b"v" * 1500, producer=(7, 0, 1))
    dropped = log.log.plan_due_flush(NOW_MS)
    again = log.log.plan_due_flush(NOW_MS)
    assert dropped is not None
    assert again is not None
    assert again.paths == dropped.paths
    assert {os.path.basename(path) for path in again.paths} >= {
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    again.run()
    log.log.commit_flush(again, now_ms=NOW_MS)
    later = log.log.plan_flush()
    assert later is not None
    assert not [path for path in later.paths if path.endswith((".snapshot", "leader-epoch-checkpoint"))]


def test_what_changes_during_a_flush_is_for_the_next(log: LogHarness) -> None:
    log.append(b"v")
    plan = log.log.plan_flush()
    assert plan is not None
    log.append(b"v", leader_epoch=1)
    log.log.roll(now_ms=NOW_MS)
    log.log.commit_flush(plan, now_ms=NOW_MS)
    later = log.log.plan_due_flush(NOW_MS)
    assert later is not None
    assert [path for path in later.paths if path.endswith("leader-epoch-checkpoint")]


@pytest.mark.parametrize(
    ("config", "now_ms", "due"),
    [
        ({"flush_messages": 3}, NOW_MS, True),
        ({"flush_messages": 4}, NOW_MS, False),
        ({"flush_ms": 100}, NOW_MS + 100, True),
        ({"flush_ms": 100}, NOW_MS + 99, False),
    ],
)
def test_flushes_are_due_by_count_and_time(
    tmp_path: Path, config: dict[str, int], now_ms: int, due: bool
) -> None:
    log = LogHarness(tmp_path, replace(SMALL, **config))  # type: ignore[arg-type]
    log.fill(3)
    assert log.log.local.is_flush_due(now_ms) == due
    plan = log.log.plan_due_flush(now_ms)
    assert (plan is not None) == due
    log.log.flush(now_ms=now_ms)
    assert not log.log.local.is_flush_due(now_ms)
