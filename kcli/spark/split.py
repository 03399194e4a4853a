"""Split: a range of offsets of one partition, read by one task."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


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
