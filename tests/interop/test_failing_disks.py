"""A disk that is really full, and one that becomes read-only: what was acknowledged is there afterwards.

A node with two log directories goes on with the other one. The directory that failed is back at the next
start, as in Kafka, and nothing has to be mended by hand. A file system that becomes read-only drops what was
not synced, so records are acknowledged here when they are (`flush.messages=1`).
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
        before = Ledger(broker.bootstrap, small)
        before.wait_for(100)
        before.close()
        ledgers.append(before)
        ledger = Ledger(broker.bootstrap, small, {"message.timeout.ms": 1000})
        if harm is fill:
            ledgers.append(ledger)  # What is on its way when a file system fails is left out.
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
