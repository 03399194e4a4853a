"""The same random logs, compacted by kcli and by Apache Kafka's cleaner at the same time: the same files."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch import iter_batches
from kcli.storage.cleaning.cleanable import Bound, LogToClean
from tests.storage.cleaning.cleaning_harness import COMPACTED, CleaningHarness
from tests.storage.cleaning.random_log import CODECS, RandomLog
from tests.storage.cleaning.test_cleaning_rounds import SCENARIOS, Round, write
from tests.storage.log_harness import NOW_MS
from tests.support.apache_cleaner import ApacheCleaner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.interop

ROUNDS = 3
PLAIN = [Codec.NONE]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCleaner]:
    cleaner = ApacheCleaner(tmp_path_factory.mktemp("apache-cleaner"))
    yield cleaner
    cleaner.close()


def files_of(directory: Path) -> dict[str, Path]:
    """Return the files of the segments; each broker has its own way of keeping producer snapshots."""
    return {
        path.name: path
        for path in directory.iterdir()
        if path.name.endswith((".log", ".index", ".timeindex", ".txnindex"))
    }


def content_of(path: Path) -> list[object]:
    """Return header fields and records of the batches of a file, which may be compressed in another way."""
    return [
        (
            (
                batch.base_offset,
                batch.last_offset,
                batch.magic,
                batch.attributes,
                batch.partition_leader_epoch,
            ),
            (batch.producer_id, batch.base_sequence, batch.max_timestamp, batch.is_valid_crc()),
            getattr(batch, "base_timestamp", None),
            getattr(batch, "producer_epoch", None),
            list(batch.records()),
        )
        for batch in iter_batches(path.read_bytes())
    ]


def clean_both(log: CleaningHarness, twin: Path, apache: ApacheCleaner, now_ms: int) -> None:
    """Compact a log, and its copy by Apache Kafka."""
    first_dirty = LogToClean(log.log).first_dirty
    run = log.clean(now_ms)
    assert run is not None
    assert run.job.bound is Bound.ACTIVE_SEGMENT
    log.reopen()
    log.log.cleaner_offset = run.end_offset
    cleaned = apache.clean(
        twin,
        now_ms=now_ms,
        first_dirty=first_dirty,
        first_uncleanable=run.job.first_uncleanable,
        internal_segment_bytes=COMPACTED.segment_bytes,
        index_interval_bytes=COMPACTED.index_interval_bytes,
        delete_retention_ms=COMPACTED.delete_retention_ms,
    )
    assert cleaned.end_offset == run.end_offset


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("codecs", "is_legacy"), [(PLAIN, False), (CODECS, False), (PLAIN, True)], ids=["plain", "codecs", "old"]
)
def test_both_leave_the_same_files(
    tmp_path: Path, apache: ApacheCleaner, codecs: list[Codec], is_legacy: bool, seed: int
) -> None:
    log = CleaningHarness(tmp_path)
    world = RandomLog(log, Random(seed), codecs=codecs)
    for number in range(ROUNDS):
        world.work(40, is_legacy=is_legacy)
        world.end_all_transactions()
        # Apache Kafka's cleaner fails if a round ends with an old entry that goes.
        world.put()
        world.end_all_transactions()
        world.roll()
        cleaner_offset = log.log.cleaner_offset
        log.reopen()
        log.log.cleaner_offset = cleaner_offset
        twin = tmp_path / f"twin-{number}" / log.directory.name
        shutil.copytree(log.directory, twin)
        clean_both(log, twin, apache, world.now_ms)
        own, others = files_of(log.directory), files_of(twin)
        assert sorted(own) == sorted(others)
        for name, path in own.items():
            if codecs is PLAIN:
                assert path.read_bytes() == others[name].read_bytes(), name
            elif name.endswith(".log"):
                assert content_of(path) == content_of(others[name]), name


WHOLE = {name: rounds for name, rounds in SCENARIOS.items() if all(each.keys == 1000 for each in rounds)}
"""Those whose keys fit into the map: with a smaller one, rounds of kcli end with a batch, others in one."""


@pytest.mark.parametrize("rounds", WHOLE.values(), ids=WHOLE)
def test_both_go_through_the_same_rounds(
    tmp_path: Path, apache: ApacheCleaner, rounds: Sequence[Round]
) -> None:
    log, now_ms = CleaningHarness(tmp_path), NOW_MS
    for number, each in enumerate(rounds):
        write(log, each.writes)
        now_ms += COMPACTED.delete_retention_ms if each.waits else 1
        cleaner_offset = log.log.cleaner_offset
        log.reopen()
        log.log.cleaner_offset = cleaner_offset
        twin = tmp_path / f"twin-{number}" / log.directory.name
        shutil.copytree(log.directory, twin)
        clean_both(log, twin, apache, now_ms)
        own, others = files_of(log.directory), files_of(twin)
        assert sorted(own) == sorted(others)
        for name, path in own.items():
            assert path.read_bytes() == others[name].read_bytes(), name
