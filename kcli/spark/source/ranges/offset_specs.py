"""Where reading begins or ends, as it was asked for, before any broker or directory is read.

| spec           | Spark's options                                                          |
|----------------|--------------------------------------------------------------------------|
| `Earliest`     | `startingOffsets` earliest                                               |
| `Latest`       | `startingOffsets` latest (streams), `endingOffsets` latest               |
| `AtOffsets`    | `startingOffsets`, `endingOffsets` `{"t":{"0":23,"1":-2}}`               |
| `AtTimestamps` | `starting…`, `endingOffsetsByTimestamp` `{"t":{"0":1700000000000}}`      |
| `AtTimestamp`  | `startingTimestamp`, `endingTimestamp`                                   |

A timestamp means the earliest offset whose record is not older. The checks are those of Spark's source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from kcli.errors import KcliError, UsageError
from kcli.spark.source.data_loss import name_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kcli.protocol.topics import TopicPartition
    from kcli.spark.filters.pushdown import Narrowing

LATEST_OFFSET: Final = -1
"""Instead of an offset: the end of the partition."""

EARLIEST_OFFSET: Final = -2
"""Instead of an offset: the beginning of the partition."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset of every partition."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of every partition."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition, or `EARLIEST_OFFSET` or `LATEST_OFFSET`."""

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
    """Where to start in a partition without a record at the starting timestamp or later."""

    ERROR = "error"
    LATEST = "latest"


class OnReset(StrEnum):
    """What to do with a partition that ends before the position of an earlier run."""

    FAIL = "fail"
    EARLIEST = "earliest"
    """Begin again; an export keeps the earlier rows elsewhere."""
    REPLACE = "replace"
    """Begin again; an export removes the earlier rows."""


@dataclass(frozen=True, slots=True)
class RangeRules:
    """The rules that decide which offsets of the selected partitions are read."""

    starting: OffsetSpec = field(default_factory=Earliest)
    ending: OffsetSpec = field(default_factory=Latest)
    on_no_match: OnNoMatch = OnNoMatch.ERROR
    fail_on_data_loss: bool = True
    read_committed: bool = False
    on_reset: OnReset = OnReset.FAIL
    narrowing: Narrowing | None = None


def check_batch(starting: OffsetSpec, ending: OffsetSpec) -> None:
    """Raise `UsageError`, except for streams, for a start at the end or an end at the beginning."""
    match starting:
        case Latest():
            raise UsageError("a batch cannot start at latest", hint="start at earliest, an offset or a time")
        case AtOffsets(offsets):
            _refuse(offsets, LATEST_OFFSET, "a batch cannot start {} at latest (-1)")
    match ending:
        case Earliest():
            raise UsageError("a batch cannot end at earliest", hint="end at latest, an offset or a time")
        case AtOffsets(offsets):
            _refuse(offsets, EARLIEST_OFFSET, "a batch cannot end {} at earliest (-2)")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_same(starting.offsets, ending.offsets)
    if isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _check_same(starting.timestamps_ms, ending.timestamps_ms)
    check_order(starting, ending, _named(starting) or ())


def check_named(
    spec: OffsetSpec, *, needed: Collection[TopicPartition], selected: Collection[TopicPartition], side: str
) -> None:
    """Raise `UsageError` if a spec lacks a selected partition, or names another one."""
    named = _named(spec)
    if named is None:
        return
    absent = sorted(set(needed) - set(named))
    if absent:
        raise UsageError(
            f"the {side} offsets leave out {_list(absent)}",
            hint="name every partition: -2 is earliest, -1 is latest",
        )
    foreign = sorted(set(named) - set(selected))
    if foreign:
        raise UsageError(
            f"the {side} offsets name what is not read or does not exist: {_list(foreign)}",
            hint="name the partitions of the topics selected, and no other",
        )


def check_order(starting: OffsetSpec, ending: OffsetSpec, partitions: Collection[TopicPartition]) -> None:
    """Raise `UsageError` for an explicit start behind an explicit end of the same kind."""
    match starting, ending:
        case (AtOffsets(low), AtOffsets(high)) | (AtTimestamps(low), AtTimestamps(high)):
            for one in partitions:
                if one in low and one in high and 0 <= high[one] < low[one]:
                    raise KcliError(
                        f"the start of {name_of(one)} is behind its end: {low[one]} > {high[one]}",
                        hint="choose an earlier start or a later end",
                    )


def _named(spec: OffsetSpec) -> Collection[TopicPartition] | None:
    match spec:
        case AtOffsets(offsets):
            return offsets.keys()
        case AtTimestamps(moments):
            return moments.keys()
    return None


def _refuse(offsets: Mapping[TopicPartition, int], wrong: int, message: str) -> None:
    for one, offset in offsets.items():
        if offset == wrong:
            raise UsageError(message.format(name_of(one)), hint="give an offset, a time or the other end")


def _check_same(low: Collection[TopicPartition], high: Collection[TopicPartition]) -> None:
    different = sorted(set(low) ^ set(high))
    if different:
        raise UsageError(
            f"only one of the starting and ending offsets names {_list(different)}",
            hint="name the same partitions in both",
        )


def _list(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(name_of(one) for one in partitions[:10])
    return shown if len(partitions) <= 10 else f"{shown} and {len(partitions) - 10} more"
