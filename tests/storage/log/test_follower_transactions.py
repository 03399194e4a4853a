"""A follower, which appends many batches at once, knows of transactions what its leader knows."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.records.control_records import TransactionMarker
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.unified_log import UnifiedLog
from tests.storage.log.test_follower_append import runs
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

Step = tuple[int, bool | None]
"""A producer, and whether its transaction commits; None: it writes a record."""

STEPS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, None, None, True, False])), max_size=25)


def write(log: UnifiedLog, step: Step) -> None:
    producer_id, is_commit = step
    if is_commit is not None:
        log.append_marker(TransactionMarker(producer_id, 0, 5, is_commit), leader_epoch=0, now_ms=NOW_MS)
        return
    known = log.producer_state.producers.get(producer_id)
    sequence = 0 if known is None else known.last_sequence + 1
    records = batch_of(b"v", producer=(producer_id, 0, sequence), is_transactional=True)
    log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)


def harness(root: str, name: str) -> LogHarness:
    path = Path(root) / name
    path.mkdir()
    return LogHarness(path)


def known(log: UnifiedLog) -> tuple[int, list[object]]:
    """Return the last stable offset, and the aborted transactions of a read from each offset below."""
    log.advance_high_watermark_to_end()
    stable = log.last_stable_offset
    return stable, [
        log.read(offset, 1 << 20, isolation=Isolation.TXN_COMMITTED).aborted for offset in range(stable)
    ]


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.lists(st.integers(1, 900), min_size=1, max_size=4))
def test_what_a_follower_knows_of_transactions(steps: list[Step], sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as root:
        leader, follower = harness(root, "leader"), harness(root, "follower")
        as_known: dict[int, tuple[int, list[object]]] = {}
        for step in steps:
            write(leader.log, step)
            as_known[leader.log.log_end_offset] = known(leader.log)
        for piece in runs(leader.log, sizes):
            follower.log.append_as_follower(piece, now_ms=NOW_MS)
            assert known(follower.log) == as_known[follower.log.log_end_offset]


def test_transactions_that_begin_in_one_append_are_in_order() -> None:
    # The producer whose batch comes first has the later open transaction.
    check([(1, None), (2, None), (1, True), (1, None)], stable=1)


def test_an_aborted_transaction_hides_none_that_a_later_append_aborts() -> None:
    check([(1, None), (1, False), (1, None), (2, None), (1, False)], stable=3)


def check(steps: list[Step], *, stable: int) -> None:
    """Have a follower append all at once, and compare."""
    with tempfile.TemporaryDirectory() as root:
        leader, follower = harness(root, "leader"), harness(root, "follower")
        for step in steps:
            write(leader.log, step)
        (piece,) = runs(leader.log, [1 << 20])
        follower.log.append_as_follower(piece, now_ms=NOW_MS)
        assert known(follower.log) == known(leader.log)
        assert follower.log.last_stable_offset == stable
