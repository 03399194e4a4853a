"""Plan: the tasks with their splits, and where each partition stands when all are written.

A plan is on disk before the first byte of its data. Until it is committed, the next owner of the lock goes on
with it, with the ranges and options that it was made with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.log.commit import Gap
from kcli.spark.export.options import Identity, WriteOptions
from kcli.spark.source.ranges.json_forms import flat, marks_of, nested, resets_of
from kcli.spark.split import OffsetInterval, Split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.split import BatchMark


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """The splits of one task, its number in the plan, and the beginning of its file names.

    Several splits are of one topic, each the whole range that the plan reads of its partition.
    """

    index: int
    stem: str
    splits: tuple[Split, ...]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.splits)

    def to_json(self) -> dict[str, Any]:
        named = {"index": self.index, "stem": self.stem}
        if len(self.splits) == 1:
            return named | {"split": self.splits[0].to_json()}
        return named | {"splits": [one.to_json() for one in self.splits]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> PlannedTask:
        splits = stored["splits"] if "splits" in stored else [stored["split"]]
        return cls(
            index=stored["index"], stem=stored["stem"], splits=tuple(Split.from_json(one) for one in splits)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one commit will hold."""

    number: int
    plan_id: str
    """Random: distinguishes the receipts of this plan from those of a plan that was rolled back."""
    created_ms: int
    overwrites: bool
    """Whether its commit drops everything before it."""
    asked: str
    """A digest of the run's options; a later run with the same options can finish this plan instead."""
    identity: Identity
    options: WriteOptions
    ranges: Mapping[TopicPartition, OffsetInterval]
    next_offsets: Mapping[TopicPartition, int]
    """Of every partition in the target, also of those that this plan does not read."""
    marks: Mapping[TopicPartition, tuple[BatchMark, ...]] = field(default_factory=dict)
    """The last batch of each partition whose log is still the one that earlier plans read."""
    gaps: tuple[Gap, ...] = ()
    resets: tuple[TopicPartition, ...] = ()
    """Partitions whose earlier files are of another log, and do not count from the commit on."""
    keeps_resets: bool = False
    """Whether these files are moved, and not removed."""
    tasks: tuple[PlannedTask, ...] = field(default=(), repr=False)

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes are to be read."""
        return sum(one.size_bytes for one in self.tasks)

    @property
    def splits(self) -> list[Split]:
        return [split for one in self.tasks for split in one.splits]

    def range_of(self, split: Split) -> OffsetInterval:
        return self.ranges[TopicPartition(split.topic, split.partition)]

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.number,
            "plan_id": self.plan_id,
            "created_ms": self.created_ms,
            "overwrites": self.overwrites,
            "asked": self.asked,
            "identity": self.identity.to_json(),
            "options": self.options.to_json(),
            "ranges": nested(self.ranges),
            "next": nested(self.next_offsets),
            "marks": nested(self.marks),
            "gaps": [asdict(gap) for gap in self.gaps],
            "resets": self.resets,
            "keeps_resets": self.keeps_resets,
            "splits": [one.to_json() for one in self.tasks],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Plan:
        return cls(
            number=stored["plan"],
            plan_id=stored["plan_id"],
            created_ms=stored["created_ms"],
            overwrites=stored["overwrites"],
            asked=stored["asked"],
            identity=Identity.from_json(stored["identity"]),
            options=WriteOptions.from_json(stored["options"]),
            ranges={one: OffsetInterval(*ends) for one, ends in flat(stored["ranges"]).items()},
            next_offsets=flat(stored["next"]),
            marks=marks_of(stored),
            gaps=tuple(Gap(**gap) for gap in stored["gaps"]),
            resets=resets_of(stored),
            keeps_resets=stored.get("keeps_resets", False),
            tasks=tuple(PlannedTask.from_json(one) for one in stored["splits"]),
        )
