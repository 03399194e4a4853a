"""Split: a range of offsets of one partition that one task reads; its rules and its counters.

Everything here is plain data that travels to the tasks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.protocol.topics import TopicPartition as TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """Data of `producer_id` in `first_offset..last_offset`, both included, was rolled back."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets `start` (included) to `end` (excluded) of one partition.

    The offsets are the truth. `size_bytes` is an estimate; `directory`, `segment` and `position` say where a
    reader of log directories may begin, and are checked before they are believed.
    """

    topic: str
    partition: int
    start: int
    end: int
    size_bytes: int = 0
    directory: str | None = None
    """The partition's directory, of a source of log directories."""
    segment: int | None = None
    """Base offset of the segment in which `start` lies."""
    position: int = 0
    """Where in that segment an entry begins whose offsets are not above `start`."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """What a source of log directories knows was rolled back; brokers tell with each fetch."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Split:
        """Return the split that `to_json` wrote."""
        split = cls(**fields)
        return replace(split, aborted=tuple(AbortedTransaction(**one) for one in fields["aborted"]))


COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns that records have, in the order of Spark's own Kafka source."""


class OnCorrupt(StrEnum):
    """What becomes of a batch that is damaged."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class OnBadValue(StrEnum):
    """What becomes of a key or value that its format does not fit."""

    FAIL = "fail"
    NULL = "null"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class FieldFormat:
    """How a key or value is decoded: binary, string, int, long, double, json, avro or none (left out)."""

    name: str = "binary"
    schema: str | None = None
    """The schema itself (DDL, JSON or Avro), or `registry:URL`."""


class OffsetInterval(NamedTuple):
    """Offsets from `start` (included) to `end` (excluded)."""

    start: int
    end: int


class BatchMark(NamedTuple):
    """The last offset of a batch that was read, and the epoch of the leader that wrote it.

    No two batches of a log have both in common: a log that still has it has all that was read before it.
    """

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The rules of reading a split; plain data, so that it travels to the tasks."""

    columns: tuple[str, ...] = COLUMNS[:-1]
    read_committed: bool = False
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    max_batch_bytes: int = 256 * 1024 * 1024
    """How much one batch may decompress to."""
    fail_on_data_loss: bool = True
    """Whether offsets that have been deleted before they were read are an error; else they are missing."""


@dataclass(slots=True)
class ReadCounters:
    """What reading a split met."""

    rows: int = 0
    bytes_read: int = 0
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    missing: list[OffsetInterval] = field(default_factory=list)
    """Offsets inside the split that damage took, or that are gone."""
    epoch_ends: dict[int, int] = field(default_factory=dict)
    """Last offset of the last batch that was read of each leader epoch."""
    on_damaged_batch: Callable[[str, int, int, bytes, str], None] | None = None
    """Called with topic, partition, file position, raw bytes and reason, under `OnCorrupt.DEAD_LETTER`."""

    @property
    def marks(self) -> tuple[BatchMark, ...]:
        """Return the last batch of each leader epoch, in the order of offsets."""
        return tuple(sorted(BatchMark(offset, epoch) for epoch, offset in self.epoch_ends.items()))
