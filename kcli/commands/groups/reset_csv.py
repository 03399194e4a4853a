"""The CSV files of `reset-offsets`: `topic,partition,offset`, or with the group before these. Pure.

There is no heading. Both forms are those of Kafka's tool (class `CsvUtils`), but what it reads as zero or
passes over is an error here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kcli.commands.whole_numbers import LARGEST_INT32, LARGEST_INT64, signed_number
from kcli.commands.words import counted
from kcli.errors import UsageError

Offsets = dict[tuple[str, int], int]
"""The offset of each partition."""


class OffsetsFile(NamedTuple):
    """What a file says for each group, and in which line it says so of a partition."""

    name: str = ""
    offsets: Mapping[str, Offsets] = {}
    lines: Mapping[tuple[str, tuple[str, int]], int] = {}

    def where(self, group: str, partition: tuple[str, int]) -> str:
        """Return the place where a partition of a group is named."""
        return place(self.name, self.lines[group, partition])


FORMAT_HINT = "a line is topic,partition,offset or group,topic,partition,offset, without a heading"


def parse_offsets(text: str, name: str, groups: Collection[str]) -> OffsetsFile:
    """Return what the file `name` says for each group.

    Lines without a group are about the one in `groups`; there must be one only.
    """
    plans: dict[str, Offsets] = {}
    lines: dict[tuple[str, tuple[str, int]], int] = {}
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
                    f"{where}: no group is named", hint="three columns are about exactly one group"
                )
            names = [next(iter(groups)), *names]
        group, topic = _name(names[0], "group", where), _name(names[1].strip(), "topic", where)
        target = (topic, _number(partition, "partition", where, least=0, most=LARGEST_INT32))
        offsets = plans.setdefault(group, {})
        if target in offsets:
            raise UsageError(f"{where}: a partition is named twice: {topic}-{partition}")
        offsets[target] = _number(offset, "offset", where, least=-LARGEST_INT64 - 1, most=LARGEST_INT64)
        lines[group, target] = number
    if not plans:
        raise UsageError(f"`{name}` holds no offsets", hint=FORMAT_HINT)
    return OffsetsFile(name, plans, lines)


def place(name: str, number: int) -> str:
    """Return a line of a file as errors name it."""
    return f"`{name}`, line {number}"


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that hold something, with the numbers of their lines."""
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
