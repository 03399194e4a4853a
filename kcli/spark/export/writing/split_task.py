"""SplitTask: the splits of one task of a plan, and everything needed to write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli import __version__
from kcli.spark.export.target.layout import partitions_of
from kcli.spark.split import OffsetInterval

if TYPE_CHECKING:
    from kcli.spark.export.options import Identity, WriteOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import SplitReader
    from kcli.spark.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Splits and what a task needs to write them; plain data that can be pickled.

    Several are whole partitions of one topic, whose rows share files.
    """

    target: Target
    plan: int
    plan_id: str
    index: int
    """The task's number in its plan."""
    splits: tuple[Split, ...]
    """What to read: the plan's splits, without offsets that are gone since."""
    stem: str
    """The beginning of the names of its files."""
    planned: OffsetInterval
    """The range that the plan reads of the partition, if there is only one."""
    identity: Identity
    reader: SplitReader
    options: WriteOptions

    @property
    def split(self) -> Split:
        """Return the only split of a task whose files are not shared."""
        (split,) = self.splits
        return split

    @property
    def topic(self) -> str:
        return self.splits[0].topic

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.splits)

    @property
    def shares_files(self) -> bool:
        return len(self.splits) > 1

    def __str__(self) -> str:
        if self.shares_files:
            return f"partitions {partitions_of(self.splits).replace('to', ' to ')} of {self.topic}"
        split = self.split
        return f"offsets {split.start} to {split.end - 1} of {split.topic}-{split.partition}"

    def footer_metadata(self) -> dict[str, str]:
        """Return the metadata of Parquet footers; `repair` rebuilds a lost commit log from it."""
        start, end = min(one.start for one in self.splits), max(one.end for one in self.splits)
        # Of partitions that share files, a plan reads whole ranges.
        planned = OffsetInterval(start, end) if self.shares_files else self.planned
        return {
            "kcli.topic": self.topic,
            "kcli.partition": partitions_of(self.splits),
            "kcli.start": str(start),
            "kcli.end": str(end),
            "kcli.plan": str(self.plan),
            "kcli.planned": f"{planned.start}-{planned.end}",
            "kcli.cluster": self.identity.cluster_id or "",
            "kcli.version": __version__,
            "kcli.identity": json.dumps(self.identity.to_json(), separators=(",", ":"), sort_keys=True),
        }
