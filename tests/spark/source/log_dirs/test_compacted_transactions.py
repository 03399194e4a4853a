"""Random logs with transactions through random compactions and kills, read from their directory as it stands.

A kill leaves the directory at one of the renames of a swap; nobody starts a broker on it before it is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.topics import TopicPartition
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import OffsetInterval, ReadCounters, Reading
from kcli.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT, write_offsets
from tests.storage.cleaning.cleaning_harness import CleaningHarness
from tests.storage.cleaning.random_log import RandomLog, Written

ORDERS = TopicPartition("orders", 0)
READING = Reading(columns=("offset", "key", "value"), read_committed=True)


class Killed(Exception):
    """The process is gone."""


def committed_rows(root: Path, end: int, split_bytes: int) -> tuple[int, list[Written]]:
    """Return the last stable offset of the directory, and the records up to there."""
    write_offsets(str(root / REPLICATION_OFFSET_CHECKPOINT), {ORDERS: end})
    source = LogDirsSource([str(root)])
    stable = source.latest([ORDERS], read_committed=True)[ORDERS]
    counters = ReadCounters()
    limits = SplitLimits(split_bytes=split_bytes)
    rows = [
        Written(row["offset"], row["key"], row["value"])
        for split in source.splits({ORDERS: OffsetInterval(0, stable)}, limits, read_committed=True)
        for batch in source.reader().read(split, READING, counters)
        for row in batch.to_pylist()
    ]
    assert counters.missing == []
    return stable, sorted(rows)


def check(world: RandomLog, root: Path, split_bytes: int) -> None:
    """The directory has each key's last committed value, and nothing that was not committed."""
    log = world.log.log
    stable, rows = committed_rows(root, log.log_end_offset, split_bytes)
    assert stable == log.last_stable_offset
    assert len({row.offset for row in rows}) == len(rows)
    assert set(rows) <= set(world.committed)
    last = {row.key: row for row in rows}
    for key, record in world.expected().items():
        # A deleted key may be gone.
        assert last.get(key) == record or (record.value is None and key not in last)


def kill_in_swap(world: RandomLog, root: Path, renames: int, split_bytes: int) -> None:
    """Compact, and have the process killed at one of the renames of a swap; read what is left."""
    rename, left = os.replace, renames

    def replace(source: str, target: str) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        rename(source, target)

    try:
        with mock.patch("os.replace", replace):
            world.log.clean(world.now_ms)
    except Killed:
        check(world, root, split_bytes)
    world.log.crash()


@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["work", "work", "clean", "kill"]), min_size=2, max_size=10),
    st.sampled_from([1, 300, 2**40]),
)
def test_the_directory_has_what_was_committed(seed: int, actions: list[str], split_bytes: int) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory)
        world = RandomLog(CleaningHarness(root), Random(seed))
        world.work(20)
        for action in actions:
            world.roll()
            if action == "work":
                world.work(world.random.randint(1, 25))
            elif action == "clean":
                world.now_ms += world.random.choice([0, 3000])
                world.log.clean(world.now_ms, map_bytes=world.random.choice([0, 300, 700, 10**6]))
            else:
                kill_in_swap(world, root, world.random.randrange(30), split_bytes)
            check(world, root, split_bytes)
        world.log.log.close_handlers()
