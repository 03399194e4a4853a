"""A disk that is really full, and one that becomes read-only: what was acknowledged is there afterwards.

A node with two log directories goes on with the other one. The directory that failed is back at the next
start, as in Kafka, and nothing has to be mended by hand. A file system that becomes read-only drops what was
not synced, so records are acknowledged here when they are (`flush.messages=1`).

While ext4 fails it also drops some of what it has called synced. On a busy machine (Linux 6.18) a program
that only appends and calls fdatasync lost such blocks in 17 of 60 runs; fsync, O_DSYNC, sync_file_range
before it and statvfs after it did not help. It lost none in 60 runs when it asked the journal after each
sync, as `kcli.storage.disk` does; so what is acknowledged during the failure counts here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kcli_broker import KcliBroker
from tests.support.ledger import Ledger
from tests.support.producing import create_topic
from tests.support.small_disk import SmallDisk, why_not
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

LEFT_BYTES = 300_000


class BrokerOnDisks(KcliBroker):
    """A broker with a log directory on a large disk, which has the metadata, and one on a small disk."""

    def __init__(self, directory: Path, disk: SmallDisk) -> None:
        large = directory / "large"
        dirs = f"{large},{disk.path / 'logs'}"
        super().__init__(directory, settings={"log.dirs": dirs, "num.partitions": "1"})
        self.disk = disk

    def command(self) -> list[str]:
        return self.disk.command(*super().command())

    def topic_on_small_disk(self, topics: tuple[str, ...]) -> str:
        (found,) = [topic for topic in topics if any(self.disk.seen.glob(f"logs/**/{topic}-0"))]
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerOnDisks]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    disk = SmallDisk(tmp_path)
    running = BrokerOnDisks(tmp_path, disk)
    try:
        yield running.start()
    finally:
        running.close()
        disk.close()


def fill(disk: SmallDisk) -> None:
    disk.fill(LEFT_BYTES)


def fail_once_offline(broker: BrokerOnDisks, ledger: Ledger, harm: Callable[[SmallDisk], None]) -> None:
    """Harm the small disk, and return when its directory is offline and its producer has given up."""
    before = len(broker.messages())
    harm(broker.disk)
    eventually(lambda: "the directory is offline" in broker.messages()[before:], "the directory fails")
    eventually(lambda: bool(ledger.failures), "its producer gives up")


def test_what_was_acknowledged_survives_disks_that_fail(broker: BrokerOnDisks) -> None:
    topics = ("first", "second")
    for topic in topics:
        create_topic(broker.bootstrap, topic, config={"segment.bytes": str(1 << 20), "flush.messages": "1"})
    small = broker.topic_on_small_disk(topics)
    (large,) = {*topics} - {small}
    others = Ledger(broker.bootstrap, large)
    ledgers = []
    for harm, mend in ((fill, SmallDisk.free), (SmallDisk.fail, SmallDisk.repair)):
        ledger = Ledger(broker.bootstrap, small, {"message.timeout.ms": 1000})
        ledgers.append(ledger)
        ledger.wait_for(100)
        fail_once_offline(broker, ledger, harm)
        others.wait_for(200)
        ledger.close()
        assert broker.stop() == 0
        mend(broker.disk)
        broker.start()
        others.wait_for(200)
        for each in ledgers:
            each.check_acknowledged(broker.bootstrap)
    after = Ledger(broker.bootstrap, small)
    after.wait_for(100)
    for each in (after, others):
        each.close()
        assert each.failures == []
    others.check(broker.bootstrap)
    after.check_acknowledged(broker.bootstrap)
    assert "Traceback" not in broker.messages()
    assert broker.stop() == 0
