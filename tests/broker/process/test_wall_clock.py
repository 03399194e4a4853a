"""A wall clock that is set forward and back by days, while clients are served: it dates records, no more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import trio
from confluent_kafka import Consumer

from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.broker.waiting.timer import wall_ms
from tests.support.ledger import Ledger
from tests.support.producing import create_topic
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

DAY_MS = 86_400_000
JUMPS_MS = [6 * DAY_MS, -12 * DAY_MS, DAY_MS, 3_600_000, 5 * DAY_MS, -1]
PROPERTIES = {
    "replica.high.watermark.checkpoint.interval.ms": "1",
    "log.flush.offset.checkpoint.interval.ms": "1",
    "log.retention.check.interval.ms": "1",
    "log.initial.task.delay.ms": "0",
    "producer.id.expiration.check.interval.ms": "1",
    "offsets.retention.check.interval.ms": "1",
}
CONFIG = {
    "message.timestamp.type": "LogAppendTime",
    "segment.bytes": str(1 << 20),
    "flush.ms": "60000",
    "retention.ms": "-1",
}


class Clock:
    """The system's clock, and how far it was set."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def __call__(self) -> int:
        return wall_ms() + self.offset_ms


class Member:
    """A consumer in a group, in a thread of its own; it commits what it has read."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.read = 0
        self.changes: list[str] = []
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "clocked",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 100,
                "auto.commit.interval.ms": 50,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=lambda *_: self.changes.append("assigned"),
            on_revoke=lambda *_: self.changes.append("revoked"),
            on_lost=lambda *_: self.changes.append("lost"),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.read += sum(message.error() is None for message in self._consumer.consume(500, 0.05))

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


async def test_clients_do_not_notice_that_the_clock_is_set(tmp_path: Path) -> None:
    clock = Clock()
    options = ClusterOptions(data_dir=tmp_path, nodes=2, host="127.0.0.1", port=0, properties=PROPERTIES)
    checkpoint = tmp_path / "node-1" / "replication-offset-checkpoint"

    async def in_thread(call: Callable[[], object]) -> None:
        await trio.to_thread.run_sync(call)

    async def served(run: Callable[[Cluster, str], object]) -> None:
        cluster = Cluster(options, wall_ms=clock)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await run(cluster, ",".join(cluster.bootstrap_servers))  # type: ignore[misc]
            cluster.stop()
            await cluster.stopped.wait()
        assert not cluster.failed

    async def jump(cluster: Cluster, bootstrap: str) -> None:
        await in_thread(lambda: create_topic(bootstrap, "kept", config=CONFIG))
        ledger, member = Ledger(bootstrap, "kept"), Member(bootstrap, "kept")
        await until(lambda: member.read > 100)
        for jump_ms in JUMPS_MS:
            clock.offset_ms += jump_ms
            checkpoint.unlink(missing_ok=True)
            await until(checkpoint.exists)  # So that every job on the logs has run at that time.
            await in_thread(lambda: ledger.wait_for(100))
        await in_thread(ledger.close)
        await until(lambda: member.read == len(ledger.acknowledged))
        await in_thread(member.close)
        assert ledger.failures == []
        assert member.changes[:1] == ["assigned"]
        assert member.changes[1:] in ([], ["revoked"])  # By its own close.
        await in_thread(lambda: ledger.check(bootstrap))
        ledgers.append(ledger)

    async def look(cluster: Cluster, bootstrap: str) -> None:
        await in_thread(lambda: ledgers[0].check(bootstrap))

    ledgers: list[Ledger] = []
    await served(jump)
    clock.offset_ms -= 30 * DAY_MS
    await served(look)
