"""New offsets of a group: parsed, planned, and compared with the committed ones. Pure.

A plan is made from facts: the committed offsets, the begin and end of partitions, and offsets by timestamp.
An offset outside of its partition is moved to the nearer end with a warning. Offsets, order and text are
those of Kafka's tool (class `OffsetsUtils`).

CSV files have the columns `topic,partition,offset`, or the group before them, and no heading, as in Kafka's
tool (class `CsvUtils`). Values that it reads as zero or skips are errors here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kcli.commands.shared.arguments import LARGEST_INT32, LARGEST_INT64, signed_number, whole_number
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.java import Column, hash_map_order, partition_hash, table_lines, widest
from kcli.commands.shared.output import Table
from kcli.errors import KcliError, UsageError
from kcli.protocol.java import string_hash
from kcli.protocol.topics import TopicPartition


class ResetKind(Enum):
    """The kinds of new offsets, by the options' names; COPY takes those of another group."""

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
    """The partitions of a request: those of `topics` and `partitions`, or all with committed offsets."""

    topics: Sequence[str] = ()
    partitions: Sequence[TopicPartition] = ()
    all_topics: bool = False


class ResetFacts(NamedTuple):
    """The known offsets of a group and its partitions. `timed` is None without a record that new."""

    committed: Mapping[TopicPartition, int] = {}
    starts: Mapping[TopicPartition, int] = {}
    ends: Mapping[TopicPartition, int] = {}
    timed: Mapping[TopicPartition, int | None] = {}
    requested: Mapping[TopicPartition, int] = {}


class ResetRow(NamedTuple):
    """A partition's offset before and after; only records that still exist are counted."""

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
    """The rows of a group, and warnings about them."""

    group: str
    rows: Sequence[ResetRow]
    warnings: Sequence[str] = ()


def parse_scope(topics: Iterable[str], *, all_topics: bool = False) -> Scope:
    """Return the scope of `--topic orders --topic clicks:0,2` and `--all-topics`."""
    whole: list[str] = []
    partitions: list[TopicPartition] = []
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
            partitions.append(TopicPartition(topic, partition))
    named = [*((topic, -1) for topic in whole), *partitions]
    for topic, partition in named:
        if named.count((topic, partition)) > 1 or (partition >= 0 and topic in whole):
            raise UsageError(f"`--topic` names a partition twice: {topic}")
    if all_topics and named:
        raise UsageError("`--all-topics` and `--topic` exclude each other")
    return Scope(tuple(whole), tuple(partitions), all_topics)


def make_plan(
    group: str, partitions: Iterable[TopicPartition], *, kind: ResetKind, facts: ResetFacts, value: int = 0
) -> ResetPlan:
    """Return the plan of a group; `value` is the number of `--to-offset` or `--shift-by`."""
    wanted = list(partitions)
    if kind is ResetKind.CURRENT:  # the order of Kafka's tool
        wanted.sort(key=lambda partition: partition not in facts.committed)
    rows, warnings = [], []
    for partition in hash_map_order(wanted, partition_hash):
        new, warning = _new_offset(partition, kind, facts, value)
        rows.append(_row(partition, new, facts))
        if warning is not None:
            warnings.append(f"{partition[0]}-{partition[1]}: {warning}")
    return ResetPlan(group, rows, warnings)


def _new_offset(
    partition: TopicPartition, kind: ResetKind, facts: ResetFacts, value: int
) -> tuple[int, str | None]:
    """Return the new offset of a partition, and a warning if it differs from the requested one."""
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


def _clamped(offset: int, partition: TopicPartition, facts: ResetFacts) -> tuple[int, str | None]:
    start, end = facts.starts[partition], facts.ends[partition]
    if offset > end:
        return end, f"offset {offset} is beyond the end, {end} is taken"
    if offset < start:
        return start, f"offset {offset} is before the first record, {start} is taken"
    return offset, None


def _row(partition: TopicPartition, new: int, facts: ResetFacts) -> ResetRow:
    current = facts.committed.get(partition)
    start, end = facts.starts.get(partition), facts.ends.get(partition)
    again = skipped = 0
    if current is not None:
        again = (current if end is None else min(current, end)) - new
        skipped = new - (current if start is None else max(current, start))
    change = None if current is None else new - current
    return ResetRow(*partition, current, new, change, max(0, again), max(0, skipped), start, end)


Offsets = dict[TopicPartition, int]


class OffsetsFile(NamedTuple):
    """The offsets in a file by group, and the line of each."""

    name: str = ""
    offsets: Mapping[str, Offsets] = {}
    lines: Mapping[tuple[str, TopicPartition], int] = {}

    def where(self, group: str, partition: TopicPartition) -> str:
        return place(self.name, self.lines[group, partition])


FORMAT_HINT = "a line is topic,partition,offset or group,topic,partition,offset, without a heading"


def parse_offsets(text: str, name: str, groups: Collection[str]) -> OffsetsFile:
    """Return the offsets in the file `name`; lines without a group belong to the only one in `groups`."""
    plans: dict[str, Offsets] = {}
    lines: dict[tuple[str, TopicPartition], int] = {}
    width = 0
    for number, row in _rows(text, name):
        where = place(name, number)
        columns = counted(len(row), "column")
        if len(row) not in (3, 4):
            raise UsageError(f"{where}: {columns}", hint=FORMAT_HINT)
        if width not in (0, len(row)):
            raise UsageError(f"{where}: {columns} after lines of {width}", hint=FORMAT_HINT)
        width = len(row)
        *names, partition, offset = row
        if len(names) == 1:
            if len(groups) != 1:
                raise UsageError(
                    f"{where}: no group is named",
                    hint="three columns need exactly one group on the command line",
                )
            names = [next(iter(groups)), *names]
        group, topic = _name(names[0], "group", where), _name(names[1].strip(), "topic", where)
        index = _number(partition, "partition", where, least=0, most=LARGEST_INT32)
        target = TopicPartition(topic, index)
        offsets = plans.setdefault(group, {})
        if target in offsets:
            raise UsageError(f"{where}: a partition is named twice: {topic}-{partition}")
        offsets[target] = _number(offset, "offset", where, least=-LARGEST_INT64 - 1, most=LARGEST_INT64)
        lines[group, target] = number
    if not plans:
        raise UsageError(f"`{name}` holds no offsets", hint=FORMAT_HINT)
    return OffsetsFile(name, plans, lines)


def place(name: str, number: int) -> str:
    return f"`{name}`, line {number}"


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"{place(name, reader.line_num)}: {error}", hint=FORMAT_HINT) from error


def _name(text: str, what: str, where: str) -> str:
    if not text:
        raise UsageError(f"{where}: the {what} is missing", hint=FORMAT_HINT)
    return text


def _number(text: str, what: str, where: str, *, least: int, most: int) -> int:
    text = text.strip()
    number = signed_number(text)
    if number is None or not least <= number <= most:
        raise UsageError(f"{where}: the {what} cannot be {text or 'missing'}", hint=FORMAT_HINT)
    return number


def csv_lines(plans: Mapping[str, Iterable[tuple[str, int, int]]], *, with_groups: bool) -> Iterator[str]:
    """Return a line for each partition of each group, as Kafka's tool exports them."""
    for group, rows in plans.items():
        for row in rows:
            line = io.StringIO()
            csv.writer(line).writerow((group, *row) if with_groups else row)
            yield line.getvalue().removesuffix("\r\n")


class ResetView(NamedTuple):
    """The plans of groups in the order of Kafka's tool; a group with members has an empty plan."""

    groups: Sequence[ResetPlan]
    executed: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        if self.failures and not self.groups:
            return
        yield ""
        if not self.groups:
            return
        width = widest(15, (plan.group for plan in self.groups))
        columns = (Column("GROUP", width), Column("TOPIC", 15, True))
        yield from table_lines(
            (*columns, Column("PARTITION", 10), Column("NEW-OFFSET", 0)),
            [
                (plan.group, row.topic, row.partition, row.new_offset)
                for plan in self.groups
                for row in plan.rows
            ],
        )

    def tables(self) -> Iterator[Table]:
        for plan in self.groups:
            if plan.rows:
                yield Table(
                    ("Topic", "Partition", "Current", "New", "Change", "Read again", "Skipped"),
                    [
                        (*row[:4], None if row.change is None else f"{row.change:+d}", *row[5:7])
                        for row in plan.rows
                    ],
                    f"{plan.group}  {'executed' if self.executed else 'dry run'}",
                )


class Exported(NamedTuple):
    """The plans as CSV (`--export`), with a column of groups unless exactly one was named."""

    groups: Sequence[ResetPlan]
    executed: bool
    with_groups: bool
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        rows = {
            plan.group: [(row.topic, row.partition, row.new_offset) for row in plan.rows]
            for plan in self.groups
        }
        yield from csv_lines(rows, with_groups=self.with_groups)
        yield ""  # as Kafka's tool does

    def document(self) -> object:
        return ResetView(self.groups, self.executed, self.failures)


def in_tool_order(plans: Sequence[ResetPlan]) -> list[ResetPlan]:
    """Return plans in the order in which Kafka's tool lists their groups."""
    by_group = {plan.group: plan for plan in plans}
    return [by_group[group] for group in hash_map_order(by_group, string_hash)]
