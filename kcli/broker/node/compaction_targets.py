"""CompactionTargets: the topics and partitions that `kcli broker compact` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.unified_log import UnifiedLog


class CompactionTargets(NamedTuple):
    """Names of topics, each with a partition or None for all; without any, every compacted log."""

    names: tuple[tuple[str, int | None], ...]

    @classmethod
    def from_pairs(cls, pairs: Sequence[object]) -> CompactionTargets:
        """Check pairs of topic and partition or None. Raises `UsageError`."""
        names = []
        for pair in pairs:
            match pair:
                case (str() as topic, int() | None as partition) if topic and not isinstance(partition, bool):
                    names.append((topic, partition))
                case _:
                    raise UsageError(f"`partitions` has pairs of a topic and a partition, not {pair!r}")
        return cls(tuple(names))

    def select(self, logs: Iterable[UnifiedLog]) -> list[UnifiedLog]:
        """Return the compacted logs that are named, in the order of their names."""
        chosen = [log for log in logs if log.config.is_compacted and self._names(log.topic_partition)]
        return sorted(chosen, key=lambda log: log.topic_partition)

    def check(self, logs: Iterable[UnifiedLog]) -> None:
        """Raise `KcliError` if a name is not that of a compacted log."""
        compacted = {log.topic_partition: log.config.is_compacted for log in logs}
        for topic, partition in self.names:
            found = [
                is_compacted
                for key, is_compacted in compacted.items()
                if key.topic == topic and partition in (None, key.partition)
            ]
            name = topic if partition is None else f"{topic}-{partition}"
            if not found:
                raise KcliError(f"there is no replica of `{name}` here")
            if not any(found):
                raise KcliError(
                    f"topic `{topic}` is not compacted",
                    hint=f"`kcli configs alter {topic} --add cleanup.policy=compact` changes that",
                )

    def _names(self, key: TopicPartition) -> bool:
        return not self.names or any(
            key.topic == topic and partition in (None, key.partition) for topic, partition in self.names
        )
