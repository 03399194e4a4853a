"""Where the offsets of a group shall go: parsed, planned, and compared with where they are. Pure.

A plan is made from facts: the committed offsets, where the partitions begin and end, and what their
timestamps say. An offset outside of its partition is moved to the nearer end with a warning; the new
positions are those of Kafka's tool (class `OffsetsUtils`), in whose order the rows come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kcli.commands.java.order import hash_map_order, partition_hash
from kcli.commands.whole_numbers import LARGEST_INT32, whole_number
from kcli.errors import KcliError, UsageError

Partition = tuple[str, int]
"""A topic and one of its partitions; `TopicPartition` is such a pair as well."""


class ResetKind(Enum):
    """How new offsets are found; the values are the options' names. COPY takes those of another group."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    FILE = "--from-file"
    COPY = "clone"


class Scope(NamedTuple):
    """Which partitions are meant: all of `topics`, and `partitions`; or, `all_topics`, the committed ones."""

    topics: Sequence[str] = ()
    partitions: Sequence[Partition] = ()
    all_topics: bool = False


class ResetFacts(NamedTuple):
    """What is known of a group and the partitions. `timed`: None for no record that new."""

    committed: Mapping[Partition, int] = {}
    starts: Mapping[Partition, int] = {}
    ends: Mapping[Partition, int] = {}
    timed: Mapping[Partition, int | None] = {}
    requested: Mapping[Partition, int] = {}


class ResetRow(NamedTuple):
    """A partition's offset before and after; records count what the partition still holds."""

    topic: str
    partition: int
    current_offset: int | None
    new_offset: int
    change: int | None
    records_to_read_again: int
    records_to_skip: int
    log_start_offset: int | None
    log_end_offset: int | None


class ResetPlan(NamedTuple):
    """The rows of one group, and what the user should know about them."""

    group: str
    rows: Sequence[ResetRow]
    warnings: Sequence[str] = ()


def parse_scope(topics: Iterable[str], *, all_topics: bool = False) -> Scope:
    """Return what `--topic orders --topic clicks:0,2` and `--all-topics` mean."""
    whole: list[str] = []
    partitions: list[Partition] = []
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not numbers):
            raise UsageError(f"`--topic` cannot be {text}", hint="orders, or orders:0,2 for two partitions")
        if not colon:
            whole.append(topic)
        for number in numbers.split(",") if colon else ():
            partition = whole_number(number, LARGEST_INT32)
            if partition is None:
                raise UsageError(f"`--topic {text}`: not a partition: {number}", hint="orders:0,2")
            partitions.append((topic, partition))
    named = [*((topic, -1) for topic in whole), *partitions]
    for topic, partition in named:
        if named.count((topic, partition)) > 1 or (partition >= 0 and topic in whole):
            raise UsageError(f"`--topic` names a partition twice: {topic}")
    if all_topics and named:
        raise UsageError("`--all-topics` and `--topic` exclude each other")
    return Scope(tuple(whole), tuple(partitions), all_topics)


def make_plan(
    group: str, partitions: Iterable[Partition], *, kind: ResetKind, facts: ResetFacts, value: int = 0
) -> ResetPlan:
    """Return the plan of a group: `value` is the offset of `--to-offset`, the distance of `--shift-by`."""
    wanted = list(partitions)
    if kind is ResetKind.CURRENT:  # Kafka's tool puts them into its table in this order
        wanted.sort(key=lambda partition: partition not in facts.committed)
    rows, warnings = [], []
    for partition in hash_map_order(wanted, partition_hash):
        new, warning = _new_offset(partition, kind, facts, value)
        rows.append(_row(partition, new, facts))
        if warning is not None:
            warnings.append(f"{partition[0]}-{partition[1]}: {warning}")
    return ResetPlan(group, rows, warnings)


def _new_offset(
    partition: Partition, kind: ResetKind, facts: ResetFacts, value: int
) -> tuple[int, str | None]:
    """Return the new offset of a partition, and a warning if it is not quite what was asked for."""
    committed = facts.committed.get(partition)
    match kind:
        case ResetKind.EARLIEST:
            return facts.starts[partition], None
        case ResetKind.LATEST:
            return facts.ends[partition], None
        case ResetKind.CURRENT if committed is not None:
            return committed, None
        case ResetKind.CURRENT:
            return facts.ends[partition], "no offset is committed, the end of the partition is taken"
        case ResetKind.DATETIME | ResetKind.DURATION:
            found = facts.timed[partition]
            if found is None:
                return facts.ends[partition], "no record is that new, the end of the partition is taken"
            return found, None
        case ResetKind.COPY:
            return facts.requested[partition], None
        case ResetKind.OFFSET:
            return _clamped(value, partition, facts)
        case ResetKind.FILE:
            return _clamped(facts.requested[partition], partition, facts)
        case ResetKind.SHIFT if committed is not None:
            return _clamped(committed + value, partition, facts)
        case ResetKind.SHIFT:
            raise KcliError(
                f"cannot shift the offset of {partition[0]}-{partition[1]}: none is committed",
                hint="`--topic TOPIC:PARTITIONS` leaves it out, `--all-topics` takes the committed ones",
            )


def _clamped(offset: int, partition: Partition, facts: ResetFacts) -> tuple[int, str | None]:
    start, end = facts.starts[partition], facts.ends[partition]
    if offset > end:
        return end, f"offset {offset} is behind the end, {end} is taken"
    if offset < start:
        return start, f"offset {offset} is before the first record, {start} is taken"
    return offset, None


def _row(partition: Partition, new: int, facts: ResetFacts) -> ResetRow:
    current = facts.committed.get(partition)
    start, end = facts.starts.get(partition), facts.ends.get(partition)
    again = skipped = 0
    if current is not None:
        again = (current if end is None else min(current, end)) - new
        skipped = new - (current if start is None else max(current, start))
    return ResetRow(
        *partition,
        current,
        new,
        None if current is None else new - current,
        max(0, again),
        max(0, skipped),
        start,
        end,
    )
