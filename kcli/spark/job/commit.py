"""Commit: the files of a finished plan. That its file is there is what makes them count."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.spark.job.offsets_json import flat, marks_of, nested
from kcli.spark.job.receipt import Counters, WrittenFile
from kcli.spark.job.summary import Gap
from kcli.spark.reading import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.reading import BatchMark
    from kcli.spark.split import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a plan wrote, and where each partition of the target stands since."""

    number: int
    plan_id: str
    committed_ms: int
    overwrites: bool
    """Whether everything committed before is dropped by it."""
    topics: dict[str, str | None]
    """Topic ids by name, of all topics so far."""
    ranges: Mapping[TopicPartition, OffsetInterval]
    next_offsets: Mapping[TopicPartition, int]
    splits: int
    marks: Mapping[TopicPartition, tuple[BatchMark, ...]] = field(default_factory=dict)
    """What the next run looks for in the log of each partition, to know that it is the one that was read."""
    files: tuple[WrittenFile, ...] = field(default=(), repr=False)
    dead_letters: tuple[WrittenFile, ...] = ()
    counters: Counters = field(default_factory=Counters)
    gaps: tuple[Gap, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {
            "commit": self.number,
            "plan_id": self.plan_id,
            "committed_ms": self.committed_ms,
            "overwrites": self.overwrites,
            "topics": self.topics,
            "ranges": nested(self.ranges),
            "next": nested(self.next_offsets),
            "marks": nested(self.marks),
            "splits": self.splits,
            "totals": {
                "files": len(self.files),
                "rows": self.counters.rows,
                "bytes": sum(file.size_bytes for file in self.files),
            },
            "counters": asdict(self.counters),
            "gaps": [asdict(gap) for gap in self.gaps],
            "files": [asdict(file) for file in self.files],
            "dead_letters": [asdict(file) for file in self.dead_letters],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Commit:
        """Return the commit that `to_json` wrote."""
        return cls(
            number=stored["commit"],
            plan_id=stored["plan_id"],
            committed_ms=stored["committed_ms"],
            overwrites=stored["overwrites"],
            topics=dict(stored["topics"]),
            ranges={one: OffsetInterval(*ends) for one, ends in flat(stored["ranges"]).items()},
            next_offsets=flat(stored["next"]),
            splits=stored["splits"],
            marks=marks_of(stored),
            files=tuple(WrittenFile(**file) for file in stored["files"]),
            dead_letters=tuple(WrittenFile(**file) for file in stored["dead_letters"]),
            counters=Counters(**stored["counters"]),
            gaps=tuple(Gap(**gap) for gap in stored["gaps"]),
        )
