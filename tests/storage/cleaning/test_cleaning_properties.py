"""Random logs through random compactions, restarts and kills, against a model of what readers must find."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.storage.log.log_read import Isolation
from tests.storage.cleaning.cleaning_harness import CleaningHarness
from tests.storage.cleaning.random_log import RandomLog, Written

ACTIONS = st.sampled_from(["work", "work", "clean", "clean", "reopen", "crash", "kill", "part"])


class Killed(BaseException):
    """The process ends here."""


def committed(log: CleaningHarness) -> dict[bytes, Written]:
    """Return the last record of each key as a consumer of committed records finds them."""
    found: dict[bytes, Written] = {}
    offset = log.log.log_start_offset
    while offset < log.log.last_stable_offset:
        read = log.log.read(offset, 700, isolation=Isolation.TXN_COMMITTED)
        if read.file_slice is None:
            break
        assert read.aborted is not None
        coming = sorted(read.aborted, key=lambda transaction: transaction.first_offset)
        aborted: set[int] = set()
        for batch in iter_batches(read.file_slice.read()):
            while coming and coming[0].first_offset <= batch.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if batch.last_offset < offset:
                continue
            offset = batch.last_offset + 1
            if batch.is_control:
                # A commit marker of a producer that is not listed changes nothing.
                aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                for record in batch.records():
                    assert record.key is not None
                    found[record.key] = Written(record.offset, record.key, record.value)
    return found


def check(world: RandomLog) -> None:
    """Compare the log with the model."""
    log, now = world.log, committed(world.log)
    for key, record in world.expected().items():
        if record.value is None:
            # Its tombstone may be gone, but then nothing older is there.
            assert now.get(key, record) == record
        else:
            assert now.get(key) == record
    assert set(now) <= set(world.expected())
    state = log.log.producer_state
    open_offsets = [each.open_records[0].offset for each in world.producers.values() if each.open_records]
    assert state.first_unstable_offset == min(open_offsets, default=None)
    for producer_id, producer in world.producers.items():
        if producer_id >= 0:
            entry = state.producers[producer_id]
            assert (entry.producer_epoch, entry.last_sequence) == (producer.epoch, producer.sequence - 1)
    for segment in log.log.segments:
        for _, batch in segment.batches():
            assert batch.is_valid_crc()
            assert isinstance(batch, RecordBatch) or batch.magic < 2


def kill_in_swap(world: RandomLog, renames: int) -> None:
    """Compact, and kill the process at one of the renames of a swap."""
    rename, count = os.replace, 0

    def replace(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if count > renames:
            raise Killed
        rename(source, target)

    log = world.log
    cleaner_offset = log.log.cleaner_offset
    try:
        with mock.patch("os.replace", replace):
            log.clean(world.now_ms)
    except Killed:
        log.crash()
    else:
        # Killed before the checkpoint.
        log.crash()
    log.log.cleaner_offset = cleaner_offset


def act(world: RandomLog, action: str) -> None:
    """Do one thing with the log."""
    log, random = world.log, world.random
    cleaner_offset = log.log.cleaner_offset
    match action:
        case "work":
            world.work(random.randint(1, 25))
        case "clean":
            world.now_ms += random.choice([0, 3000])
            world.roll()
            log.clean(world.now_ms, map_bytes=random.choice([0, 300, 700, 10**6]))
        case "reopen":
            log.reopen()
            log.log.cleaner_offset = cleaner_offset
        case "crash":
            if random.random() < 0.3:
                log.log.flush(now_ms=world.now_ms)
                log.checkpoint()
            log.crash()
            log.log.cleaner_offset = cleaner_offset
        case "kill":
            kill_in_swap(world, random.randrange(30))
        case "part":
            log.clean_without_swap(world.now_ms)
            log.crash()
            log.log.cleaner_offset = cleaner_offset


@example(126785, ["clean", "work", "kill"])
@given(st.integers(0, 2**32), st.lists(ACTIONS, min_size=3, max_size=14))
def test_readers_find_the_last_committed_value_of_each_key(seed: int, actions: list[str]) -> None:
    with TemporaryDirectory() as directory:
        world = RandomLog(CleaningHarness(Path(directory)), Random(seed))
        world.work(20)
        for action in actions:
            act(world, action)
            check(world)
        world.log.log.close_handlers()
