"""Cleaning: a node with compacted topics and its cleaner, for the tests of both."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.node.log_cleaner import LogCleaner, RoundOptions
from kcli.protocol.configs import ConfigOperation, ConfigResourceType
from tests.broker.records import batch
from tests.broker.single_node import Node
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kcli.broker.node.compaction_report import CompactionReport
    from kcli.storage.log.unified_log import UnifiedLog


class Cleaning:
    """A node with compacted topics, and its cleaner."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cleaner = LogCleaner(
            node.log_manager, config=lambda: node.config, wall_ms=node.wall_ms, gate=node.gate
        )

    def create(self, name: str = "t", **configs: str) -> UnifiedLog:
        given = {"cleanup_policy": "compact", "internal_segment_bytes": "1000", **configs}
        self.node.create_topic(name, **given)
        log = self.node.log_manager.get(name, 0)
        assert log is not None
        return log

    def put(self, key: str, value: bytes | None, topic: str = "t") -> None:
        records = bytearray(batch(value, key=key.encode(), timestamp=self.node.now_ms))  # type: ignore[arg-type]
        partition = self.node.replica_manager.partition(topic, 0)
        partition.append(records, acks=1, now_ms=self.node.now_ms, max_decompressed=1 << 20)

    def update(self, keys: int, times: int, topic: str = "t") -> None:
        """Write each of some keys so many times."""
        for number in range(keys * times):
            self.put(f"k{number % keys}", b"%d-" % number + b"x" * 50, topic)

    def clean(self) -> CompactionReport | None:
        return self.cleaner.clean_once(self.node.now_ms)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """Compact in the background."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.cleaner.run)
            yield nursery
            nursery.cancel_scope.cancel()

    async def ended(self) -> None:
        """Wait for the end of a round."""
        with trio.fail_after(PATIENCE_SECONDS):
            await self.cleaner._ended.wait()
            await trio.testing.wait_all_tasks_blocked()

    def here(self, log: UnifiedLog, **how: bool) -> CompactionReport:
        return self.cleaner.clean_here(log, RoundOptions(now_ms=self.node.now_ms, **how))


def records(log: UnifiedLog) -> list[tuple[int, bytes, bytes | None]]:
    """Return (offset, key, value) of all records."""
    return [
        (each.offset, bytes(each.key or b""), None if each.value is None else bytes(each.value))
        for batch in log.segments.batches_between(log.log_start_offset, log.log_end_offset)
        for each in batch.records()
    ]


def latest(log: UnifiedLog) -> dict[bytes, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in records(log)}


def slow(cleaning: Cleaning) -> None:
    """Let the cleaner do nothing but its first bytes, until it is discarded."""
    cleaning.node.config = BrokerConfig.from_properties({"log.cleaner.io.max.bytes.per.second": "1"})


def set_config(node: Node, topic: str, name: str, value: str) -> None:
    change = ConfigChange(name, ConfigOperation.SET, value)
    outcomes = node.controller.incremental_alter_configs(
        [((ConfigResourceType.TOPIC, topic), [change])],
        defaults=TopicDefaults(configs=node.config.topic_defaults),
    )
    assert outcomes == [None]
