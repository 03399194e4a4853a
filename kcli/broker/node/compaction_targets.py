"""CompactionTargets: the topics and partitions that `kcli broker compact` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        chosen = [log for log in logs if log.config.is_compacted and self.has(log.topic_partition)]
        return sorted(chosen, key=lambda log: log.topic_partition)

    def check(self, logs: Mapping[TopicPartition, bool]) -> None:
        """Raise `KcliError` if a name is not that of a compacted log.

        `logs` tells of each replica whether it is compacted.
        """
        for topic, partition in self.names:
            found = [
                is_compacted
                for key, is_compacted in logs.items()
                if key.topic == topic and partition in (None, key.partition)
            ]
            if topic == METADATA_TOPIC:
                raise KcliError(
                    f"`{topic}` is never compacted",
                    hint="the controller replaces it with a snapshot when it is long",
                )
            if not found:
                name = topic if partition is None else f"{topic}-{partition}"
                raise KcliError(f"there is no replica of `{name}` here", hint=_hint_at(topic, logs))
            if not any(found):
                raise KcliError(
                    f"topic `{topic}` is not compacted",
                    hint=f"`kcli configs alter {topic} --add cleanup.policy=compact` changes that",
                )

    def has(self, key: TopicPartition) -> bool:
        """Whether a partition is named, or all are."""
        return not self.names or any(
            key.topic == topic and partition in (None, key.partition) for topic, partition in self.names
        )


def compacted_among(logs: Iterable[UnifiedLog]) -> dict[TopicPartition, bool]:
    """Return for each log whether it is compacted."""
    return {log.topic_partition: log.config.is_compacted for log in logs}


def _hint_at(name: str, logs: Iterable[TopicPartition]) -> str:
    """Return where to look, or what to write, instead of a name that no replica has."""
    partitions = sorted({key.partition for key in logs if key.topic == name})
    if partitions:
        return f"`kcli topics describe {name}` shows its partitions; here: {', '.join(map(str, partitions))}"
    written = {str(key): key for key in logs}
    if name in written:
        return f"write `{written[name].topic}:{written[name].partition}`"
    return "`kcli topics list` shows the topics"
