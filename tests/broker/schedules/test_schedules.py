"""The definition of durable: no acknowledged record is lost, repeated or moved, whatever happens to nodes.

Three nodes, replication factor 3, two in-sync replicas needed, idempotent producers with acks=all. A schedule
is made from a seed, and so are the order of tasks and every choice of the controller: a seed that fails
fails again.

    KCLI_SCHEDULES=5000 pytest tests/broker/schedules
    KCLI_SCHEDULE_SEED=1234 KCLI_SCHEDULES=1 pytest tests/broker/schedules
"""

from __future__ import annotations

import os

import pytest

from tests.broker.schedules.running import run_schedule
from tests.broker.schedules.schedule import make_schedule

FIRST_SEED = int(os.environ.get("KCLI_SCHEDULE_SEED", "0"))
COUNT = int(os.environ.get("KCLI_SCHEDULES", "150"))
CHUNK = 10


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + COUNT, CHUNK))
def test_nothing_that_was_acknowledged_is_lost(first: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(first, min(first + CHUNK, FIRST_SEED + COUNT)):
        schedule = make_schedule(seed)
        caplog.clear()
        try:
            run = run_schedule(schedule)
        except BaseException as error:
            error.add_note(str(schedule))
            raise
        assert run.records > 0, schedule


def test_a_seed_always_makes_the_same_schedule() -> None:
    assert str(make_schedule(11)) == str(make_schedule(11)) != str(make_schedule(12))
