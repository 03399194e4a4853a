"""The operation behind `kcli broker compact`: compacts logs of the running nodes now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.config.option_values import flag, whole
from kcli.broker.node.compaction_progress import CompactionProgress
from kcli.broker.node.compaction_targets import CompactionTargets, compacted_among
from kcli.broker.node.log_cleaner import RoundOptions
from kcli.broker.node_context import NodeState
from kcli.broker.process.control_server import LongOperation
from kcli.errors import KcliError
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.topics import TopicPartition
from kcli.storage.cleaning.cleanable import Bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import trio

    from kcli.broker.node.broker import Broker
    from kcli.broker.node.compaction_report import CompactionReport
    from kcli.broker.node.node import Node
    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation
    from kcli.storage.log.unified_log import UnifiedLog


class _Request(NamedTuple):
    """What to compact, and how; `now_ms` None means the present."""

    nodes: Sequence[Node]
    absent: Mapping[int, str]
    """The states of the nodes that do not run, by their ids."""
    targets: CompactionTargets
    now_ms: int | None
    is_dry_run: bool
    ignores_lag: bool
    rolls: bool
    progress: CompactionProgress

    async def perform(self, left: trio.Event) -> dict[str, Any]:
        """Compact one log after the other, until the client has left."""
        logs = {node.node_id: [*node.broker.log_manager] for node in self.nodes}
        away = self._replicas_away()
        known = {key: True for each in away.values() for key in each}
        self.targets.check({**known, **compacted_among(log for each in logs.values() for log in each)})
        chosen = [(node, log) for node in self.nodes for log in self.targets.select(logs[node.node_id])]
        if away and not chosen:
            node_id, keys = min(away.items())
            raise KcliError(
                f"node {node_id} is {self.absent[node_id]}, and no other has replicas of {_topics_of(keys)}",
                hint=f"`kcli broker node start {node_id}` starts it",
            )
        self.progress.expect(len(chosen))
        rows: list[dict[str, Any]] = []
        roll_helps = False
        failures: list[dict[str, Any]] = []
        for node, log in chosen:
            if left.is_set():
                break
            self.progress.begin_log(log.topic_partition)
            try:
                report = await self._compact(node.broker, log, left)
            except (KcliError, CorruptRecord) as error:
                why = "it was interrupted" if left.is_set() else error
                what = f"node {node.node_id} did not compact {log.topic_partition}: {why}"
                failures.append({"error": what, "hint": None})
            else:
                rows.append(report.row(node.node_id))
                is_active = not self.rolls and report.bound is Bound.ACTIVE_SEGMENT
                roll_helps |= is_active and report.end_offset < log.log_end_offset
        return {
            "partitions": rows,
            "failures": failures,
            "warnings": self._warnings(away),
            "roll_helps": roll_helps,
        }

    def _replicas_away(self) -> dict[int, list[TopicPartition]]:
        """Return the chosen replicas on nodes that do not run."""
        broker = self.nodes[0].broker
        away: dict[int, list[TopicPartition]] = {}
        for topic in broker.image.topics.values() if self.absent else ():
            if not broker.config.log_config(broker.image.topic_config(topic.name)).is_compacted:
                continue
            for number, partition in enumerate(topic.partitions):
                key = TopicPartition(topic.name, number)
                for node_id in self.absent.keys() & partition.replicas if self.targets.has(key) else ():
                    away.setdefault(node_id, []).append(key)
        return away

    def _warnings(self, away: Mapping[int, Sequence[TopicPartition]]) -> list[str]:
        return [
            f"node {node_id} is {self.absent[node_id]}: its replicas of {_topics_of(keys)} stay as they are"
            for node_id, keys in sorted(away.items())
        ]

    async def _compact(self, broker: Broker, log: UnifiedLog, left: trio.Event) -> CompactionReport:
        options = RoundOptions(
            now_ms=broker.wall_ms() if self.now_ms is None else self.now_ms,
            ignores_lag=self.ignores_lag,
            is_dry_run=self.is_dry_run,
            rolls=self.rolls,
            is_given_up=left.is_set,
            progress=self.progress,
        )
        return await broker.log_cleaner.compact(log, options)


async def compact_logs(cluster: Cluster, arguments: Mapping[str, Any]) -> LongOperation:
    """Compact the logs of `partitions` on one `node` or all; it ends early when the client leaves.

    Arguments: `partitions`, pairs of topic and partition or null, `node`, `dry_run`, `ignore_lag`, `roll`,
    `now_ms`. The result has a row for each replica, the failures, warnings of replicas on other nodes,
    and whether `roll` would have led to more.
    """
    node_id = None if arguments.get("node") is None else whole(arguments, "node")
    nodes = _running(cluster.nodes, node_id)
    absent = {
        each: node.state.value
        for each, node in cluster.nodes.items()
        if node_id is None and node.state is not NodeState.RUNNING
    }
    request = _Request(
        nodes,
        absent,
        CompactionTargets.from_pairs(arguments.get("partitions") or ()),
        None if arguments.get("now_ms") is None else whole(arguments, "now_ms"),
        is_dry_run=flag(arguments, "dry_run"),
        ignores_lag=flag(arguments, "ignore_lag"),
        rolls=flag(arguments, "roll"),
        progress=CompactionProgress(),
    )
    return LongOperation(request.perform, progress=request.progress.row)


def _topics_of(keys: Sequence[TopicPartition]) -> str:
    return ", ".join(f"`{topic}`" for topic in sorted({key.topic for key in keys}))


def _running(nodes: Mapping[int, Node], node_id: int | None) -> list[Node]:
    """Return one node, or all that run, by their ids. Raises `KcliError` if none does."""
    if node_id is not None:
        if node_id not in nodes:
            raise KcliError(
                f"there is no node {node_id}", hint="`kcli broker node list` shows those there are"
            )
        nodes[node_id].refuse(NodeState.DEAD, NodeState.STARTING, NodeState.PAUSED, NodeState.STOPPING)
        return [nodes[node_id]]
    running = [node for _, node in sorted(nodes.items()) if node.state is NodeState.RUNNING]
    if not running:
        raise KcliError("no node runs", hint="`kcli broker node start` starts one")
    return running


COMPACT_OPERATIONS: Mapping[str, Operation] = {"log.compact": compact_logs}
