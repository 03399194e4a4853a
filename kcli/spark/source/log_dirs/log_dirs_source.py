"""LogDirsSource: the topics in log directories, for a planner.

Every question reads the directories again, because a broker may be writing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.uuids import uuid_to_text
from kcli.spark.source.log_dirs.log_dirs_reader import LogDirsReader
from kcli.spark.source.log_dirs.replica_log import ReplicaLog
from kcli.spark.source.log_dirs.replicas import find_cluster_id, find_replicas
from kcli.spark.source.log_dirs.split_planner import plan_splits
from kcli.spark.source.source import TopicIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.source.log_dirs.replicas import Replica
    from kcli.spark.source.source import SplitLimits
    from kcli.spark.split import BatchMark, OffsetInterval, Split


class LogDirsSource:
    """The partitions in log directories, each from its most complete replica; `report` gets warnings once."""

    def __init__(self, directories: Sequence[str], report: Callable[[str], None] | None = None) -> None:
        self.directories = tuple(directories)
        self._report_to = report
        self._reported: set[str] = set()

    def cluster_id(self) -> str | None:
        """Return the id of the cluster that wrote the directories; raise `KcliError` for two clusters."""
        return find_cluster_id(self.directories)

    def topics(self) -> list[TopicIdentity]:
        """Return every topic, including internal ones, by name."""
        found: dict[str, list[Replica]] = {}
        for replica in self._replicas():
            found.setdefault(replica.topic_partition.topic, []).append(replica)
        return [
            TopicIdentity(
                name,
                _topic_id(replicas),
                tuple(sorted({replica.topic_partition.partition for replica in replicas})),
            )
            for name, replicas in sorted(found.items())
        ]

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: log.start_offset for partition, log in self._logs(partitions).items()}

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        logs = self._logs(partitions)
        if read_committed:
            return {partition: log.last_stable_offset for partition, log in logs.items()}
        return {partition: log.end_offset for partition, log in logs.items()}

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        logs = self._logs(timestamps_ms)
        return {partition: log.at_timestamp(timestamps_ms[partition]) for partition, log in logs.items()}

    def divergences(self, marks: Mapping[TopicPartition, Sequence[BatchMark]]) -> dict[TopicPartition, int]:
        """Return the offset where a log differs from the one that was read, by batches and checkpoints."""
        found = {partition: log.divergence(marks[partition]) for partition, log in self._logs(marks).items()}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> list[Split]:
        """Cut ranges into splits between batches, largest first."""
        return plan_splits(self._logs(ranges), ranges, limits, read_committed=read_committed)

    def reader(self) -> LogDirsReader:
        return LogDirsReader()

    def close(self) -> None:
        """Do nothing: no file stays open between questions."""

    def _logs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ReplicaLog]:
        """Return the most complete log of each partition."""
        wanted: dict[TopicPartition, list[Replica]] = {partition: [] for partition in partitions}
        for replica in self._replicas():
            if replica.topic_partition in wanted:
                wanted[replica.topic_partition].append(replica)
        return {partition: self._most_complete(partition, found) for partition, found in wanted.items()}

    def _most_complete(self, partition: TopicPartition, replicas: Sequence[Replica]) -> ReplicaLog:
        if not replicas:
            places = ", ".join(f"`{directory}`" for directory in self.directories)
            raise KcliError(f"`{partition}` is not in {places}")
        _topic_id(replicas)
        logs = [ReplicaLog(replica, self._report) for replica in replicas]
        best = logs[0] if len(logs) == 1 else max(logs, key=lambda log: (log.end_offset, -log.start_offset))
        if len(logs) > 1:
            others = ", ".join(f"`{log.replica.path}`" for log in logs if log is not best)
            self._report(f"of the replicas of one partition `{best.replica.path}` is read, not {others}")
        return best

    def _replicas(self) -> list[Replica]:
        find_cluster_id(self.directories)
        return find_replicas(self.directories, self._report)

    def _report(self, text: str) -> None:
        if self._report_to is not None and text not in self._reported:
            self._reported.add(text)
            self._report_to(text)


def _topic_id(replicas: Sequence[Replica]) -> str | None:
    """Return the id that the replicas of a topic agree on; raise `KcliError` if they differ."""
    found = {replica.topic_id: replica.path for replica in replicas if replica.topic_id is not None}
    if len(found) > 1:
        (one, first), (other, second) = [(uuid_to_text(key), path) for key, path in found.items()][:2]
        raise KcliError(
            f"two topics of one name: `{first}` has the topic id {one}, `{second}` {other}",
            hint="give the log directories of one of them only",
        )
    return uuid_to_text(next(iter(found))) if found else None
