"""Where reading begins or ends, as it was asked for: before any broker or directory was looked at.

| spec           | Spark's options                                                          |
|----------------|--------------------------------------------------------------------------|
| `Earliest`     | `startingOffsets` earliest                                               |
| `Latest`       | `startingOffsets` latest (streams), `endingOffsets` latest               |
| `AtOffsets`    | `startingOffsets`, `endingOffsets` `{"t":{"0":23,"1":-2}}`               |
| `AtTimestamps` | `starting…`, `endingOffsetsByTimestamp` `{"t":{"0":1700000000000}}`      |
| `AtTimestamp`  | `startingTimestamp`, `endingTimestamp`                                   |

A timestamp stands for the earliest offset whose record is not older.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.ranges.pushdown import Narrowing
    from kcli.spark.split import TopicPartition

LATEST_OFFSET: Final = -1
"""In place of an offset: where the partition ends."""

EARLIEST_OFFSET: Final = -2
"""In place of an offset: where the partition begins."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of every partition."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition, `EARLIEST_OFFSET` and `LATEST_OFFSET` among them."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """A timestamp in milliseconds for every partition."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """One timestamp in milliseconds for all partitions."""

    timestamp_ms: int


OffsetSpec: TypeAlias = Earliest | Latest | AtOffsets | AtTimestamps | AtTimestamp


class OnNoMatch(StrEnum):
    """What a starting timestamp means for a partition without so new a record."""

    ERROR = "error"
    LATEST = "latest"


class OnReset(StrEnum):
    """What becomes of a partition that ends before the position an earlier run reached."""

    FAIL = "fail"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class RangeRules:
    """Everything that decides which offsets of the selected partitions are read."""

    starting: OffsetSpec = field(default_factory=Earliest)
    ending: OffsetSpec = field(default_factory=Latest)
    on_no_match: OnNoMatch = OnNoMatch.ERROR
    fail_on_data_loss: bool = True
    read_committed: bool = False
    on_reset: OnReset = OnReset.FAIL
    narrowing: Narrowing | None = None
