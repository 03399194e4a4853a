"""Split: a range of offsets of one partition that one task reads; its rules and its counters.

Everything here is plain data that travels to the tasks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The data of `producer_id` in `first_offset..last_offset`, both included, was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets `start` (included) to `end` (excluded) of one partition.

    `size_bytes` is an estimate. `directory`, `segment` and `position` are hints where a reader of log
    directories may begin; it checks them.
    """

    topic: str
    partition: int
    start: int
    end: int
    size_bytes: int = 0
    directory: str | None = None
    """The partition's directory, for a source of log directories."""
    segment: int | None = None
    """The base offset of the segment that contains `start`."""
    position: int = 0
    """A position in that segment where an entry begins whose offsets are not above `start`."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """Aborted transactions that a source of log directories knows; brokers list them with each fetch."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Split:
        split = cls(**fields)
        return replace(split, aborted=tuple(AbortedTransaction(**one) for one in fields["aborted"]))


COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of records, in the order of Spark's own Kafka source."""


class OnCorrupt(StrEnum):
    """What to do with a damaged batch."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class OnBadValue(StrEnum):
    """What to do with a key or value that cannot be decoded."""

    FAIL = "fail"
    NULL = "null"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class FieldFormat:
    """How a key or value is decoded: binary, string, int, long, double, json, avro or none (left out)."""

    name: str = "binary"
    schema: str | None = None
    """A schema (DDL, JSON or Avro), or `registry:URL`."""


class OffsetInterval(NamedTuple):
    """Offsets from `start` (included) to `end` (excluded)."""

    start: int
    end: int


class BatchMark(NamedTuple):
    """The last offset of a batch that was read, and its leader epoch.

    No two batches of a log have both in common: a log that still has this batch has all that was read before
    it.
    """

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The rules for reading a split; plain data that travels to the tasks."""

    columns: tuple[str, ...] = COLUMNS[:-1]
    read_committed: bool = False
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    max_batch_bytes: int = 256 * 1024 * 1024
    """The largest size that one batch may decompress to."""
    fail_on_data_loss: bool = True
    """Whether offsets that are deleted before they are read raise `DataLoss`; otherwise they are missing."""


@dataclass(slots=True)
class ReadCounters:
    """What reading a split encountered."""

    rows: int = 0
    bytes_read: int = 0
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    missing: list[OffsetInterval] = field(default_factory=list)
    """Offsets of the split that are damaged or gone."""
    epoch_ends: dict[int, int] = field(default_factory=dict)
    """The last offset of the last batch that was read of each leader epoch."""
    on_damaged_batch: Callable[[str, int, int, bytes, str], None] | None = None
    """Called with topic, partition, file position, raw bytes and reason, under `OnCorrupt.DEAD_LETTER`."""

    @property
    def marks(self) -> tuple[BatchMark, ...]:
        """Return the last batch of each leader epoch, in the order of offsets."""
        return tuple(sorted(BatchMark(offset, epoch) for epoch, offset in self.epoch_ends.items()))
