"""What `kcli consumer-groups describe` shows of offsets: partitions with their lag, or totals of groups.

The text of partitions is that of Kafka's own tool (class `ConsumerGroupCommand`), byte for byte; totals and
time lags are kcli's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.lag import PartitionRow, duration_text, longest_time_lag, total_lag
from kcli.commands.java.text import columns, widest
from kcli.commands.output import Table
from kcli.errors import KcliError


class GroupOffsets(NamedTuple):
    """A group and its partitions."""

    head: GroupHead
    partitions: Sequence[PartitionRow]

    def total_lag(self) -> int | None:
        """Return the lag of the whole group."""
        return total_lag(self.partitions)

    def document(self) -> object:
        """Return the group's fields, its total lag and its partitions."""
        return {
            **self.head._asdict(),
            "total_lag": self.total_lag(),
            "longest_time_lag_ms": longest_time_lag(self.partitions),
            "partitions": self.partitions,
        }


class OffsetsView(NamedTuple):
    """The result of `describe --offsets`."""

    groups: Sequence[GroupOffsets]
    verbose: bool = False
    time_lag: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return for each group an empty line, a heading and a line for each partition."""
        for group in self.groups:
            if group.partitions:
                yield from self._group_lines(group)

    def _group_lines(self, group: GroupOffsets) -> Iterator[str]:
        rows = group.partitions
        widths = [widest(15, [group.head.group]), widest(15, (row.topic for row in rows)), 10]
        names = ["GROUP", "TOPIC", "PARTITION"]
        if self.verbose:
            names.append("LEADER-EPOCH")
            widths.append(15)
        names += ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        widths += [15, 15, 15]
        if self.time_lag:
            names.append("TIME-LAG")
            widths.append(15)
        widths += [
            widest(15, (row.consumer_id or "" for row in rows)),
            widest(15, (row.host or "" for row in rows)),
            0,
        ]
        yield ""
        yield columns(widths, (*names, "CONSUMER-ID", "HOST", "CLIENT-ID"))
        for row in rows:
            yield columns(widths, (group.head.group, *self._cells(row)))

    def _cells(self, row: PartitionRow) -> Iterator[object]:
        yield from (row.topic, row.partition)
        if self.verbose:
            yield row.leader_epoch
        yield from (row.current_offset, row.log_end_offset, row.lag)
        if self.time_lag:
            yield duration_text(row.time_lag_ms)
        yield from (row.consumer_id, row.host, row.client_id)

    def document(self) -> object:
        """Return the groups with their totals, and the total of all."""
        return {"groups": self.groups, "total_lag": sum_of_lags(self.groups), "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each group, its total lag in the title."""
        names = ["Topic", "Partition"]
        if self.verbose:
            names.append("Leader epoch")
        names += ["Committed", "End", "Lag"]
        if self.time_lag:
            names.append("Behind")
        for group in self.groups:
            yield Table(
                (*names, "Consumer", "Host", "Client"),
                [list(self._cells(row)) for row in group.partitions],
                lag_title(group),
            )


def lag_title(group: GroupOffsets) -> str:
    """Return the heading of a group's table with its lag."""
    lag, behind = group.total_lag(), duration_text(longest_time_lag(group.partitions))
    parts = [group.head.title(), None if lag is None else f"lag {lag}", behind and f"behind {behind}"]
    return "  ".join(part for part in parts if part)


def sum_of_lags(groups: Iterable[GroupOffsets]) -> int | None:
    """Return the lag of all groups together, None if none is known."""
    known = [lag for lag in (group.total_lag() for group in groups) if lag is not None]
    return sum(known) if known else None


class TotalsView(NamedTuple):
    """The result of `describe --total-lag`: a line for each group, and one for all."""

    groups: Sequence[GroupOffsets]
    time_lag: bool = False
    failures: Sequence[KcliError] = ()

    def _rows(self) -> list[list[object]]:
        rows: list[list[object]] = [
            [
                group.head.group,
                group.head.state,
                group.head.member_count,
                len(group.partitions),
                group.total_lag(),
                longest_time_lag(group.partitions),
            ]
            for group in self.groups
        ]
        if len(rows) > 1:
            counts = [sum(row[index] for row in rows) for index in (2, 3)]  # type: ignore[misc]
            behind = longest_time_lag(row for group in self.groups for row in group.partitions)
            rows.append(["TOTAL", None, *counts, sum_of_lags(self.groups), behind])
        return [[*row[:5], duration_text(row[5])] if self.time_lag else row[:5] for row in rows]  # type: ignore[arg-type]

    def lines(self) -> Iterator[str]:
        """Return a heading, a line for each group and, of several groups, one for all."""
        rows = self._rows()
        if not rows:
            return
        names = ["GROUP", "STATE", "#MEMBERS", "#PARTITIONS", "LAG"]
        widths = [widest(15, (str(row[0]) for row in rows)), 20, 10, 12, 0]
        if self.time_lag:
            names, widths = [*names, "TIME-LAG"], [*widths[:4], 15, 0]
        yield columns(widths, names)
        for row in rows:
            yield columns(widths, row)

    def document(self) -> object:
        """Return the same document as `describe --offsets`."""
        return OffsetsView(self.groups, failures=self.failures).document()

    def tables(self) -> Iterator[Table]:
        """Return one table."""
        names = ["Group", "State", "Members", "Partitions", "Lag"]
        yield Table([*names, "Behind"] if self.time_lag else names, self._rows())
