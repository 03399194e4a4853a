"""CompactionProgress: what is told of the rounds that a running broker does for `kcli broker compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.node.compaction_progress import CompactionProgress
from kcli.broker.node.log_cleaner import RoundOptions
from kcli.broker.process.compact_operations import compact_logs
from tests.broker.records import batch
from tests.broker.schedules.simulated_cluster import no_threads
from tests.support.running_cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

    import trio.testing

NOTHING = {"log": "", "number": 0, "logs": 0, "bytes_read": 0, "bytes_to_read": 0}


async def test_logs_and_bytes_are_counted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    with no_threads():
        async with running_cluster(tmp_path, log_cleaner_enable="false") as cluster:
            (broker,) = cluster.brokers
            configs = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}
            broker.controller.create_topics([NewTopic("t", 2, 1, configs=configs)], defaults=TopicDefaults())
            one, two = (broker.replica_manager.partition("t", number) for number in (0, 1))
            for _ in range(60):
                records = bytearray(batch(b"x" * 50, timestamp=broker.wall_ms()))
                one.append(records, acks=1, now_ms=broker.wall_ms(), max_decompressed=1 << 20)
            rows: list[dict[str, Any]] = []
            watched = CompactionProgress(rows.append)
            options = RoundOptions(now_ms=broker.wall_ms(), is_dry_run=True, progress=watched)
            await broker.log_cleaner.compact(one.log, options)
            size = sum(segment.size for segment in one.log.segments) - one.log.segments.active.size
            read = [row["bytes_read"] for row in rows]
            assert read == sorted(read)
            assert 0 < read[0] < read[-1] == 2 * size
            assert {row["bytes_to_read"] for row in rows} == {2 * size}

            operation = await compact_logs(cluster, {"partitions": [["t", None]], "dry_run": True})
            assert operation.progress is not None
            assert operation.progress() == NOTHING
            await operation.until(trio.Event())
            # The last one has nothing to compact.
            assert operation.progress() == {**NOTHING, "log": "t-1", "number": 2, "logs": 2}
            assert two.log.log_end_offset == 0
            operation = await compact_logs(cluster, {"partitions": [["t", 0]]})
            await operation.until(trio.Event())
            assert operation.progress is not None
            told = {"log": "t-0", "number": 1, "logs": 1, "bytes_read": 2 * size, "bytes_to_read": 2 * size}
            assert operation.progress() == told
