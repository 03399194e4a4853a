"""Transactions are atomic and end, whatever happens to nodes, links, coordinators and requests.

Three nodes, three transactional ids with both levels of `transaction.version`, of which one is often too slow
for its time-out. Producers crash at times. Seeds and variables are as in `test_schedules.py`.
"""

from __future__ import annotations

import os

import pytest

from tests.broker.schedules.running import run_transactions
from tests.broker.schedules.schedule import TRANSACTION_WEIGHTS, make_schedule

FIRST_SEED = int(os.environ.get("KCLI_SCHEDULE_SEED", "0"))
COUNT = int(os.environ.get("KCLI_TRANSACTION_SCHEDULES", "40"))
CHUNK = 5


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + COUNT, CHUNK))
def test_a_transaction_is_there_as_a_whole_or_not_at_all(
    first: int, caplog: pytest.LogCaptureFixture
) -> None:
    committed = 0
    for seed in range(first, min(first + CHUNK, FIRST_SEED + COUNT)):
        schedule = make_schedule(seed, weights=TRANSACTION_WEIGHTS)
        caplog.clear()
        try:
            run = run_transactions(schedule)
        except BaseException as error:
            error.add_note(str(schedule))
            raise
        committed += run.committed
    assert committed > 0
