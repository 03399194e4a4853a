"""What the members of a group consumed and committed, against what was produced."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.group_members import Event


class Ledger:
    """The records and commits in members' events."""

    def __init__(self, events: Iterable[Event]) -> None:
        wanted = (event for event in events if event.kind in ("records", "committed"))
        # As they happened, and not as the lines of several programs came to be read.
        self._events = sorted(wanted, key=lambda event: event.at)

    def consumed(self) -> dict[int, Counter[int]]:
        """How often each offset of each partition was consumed."""
        found: dict[int, Counter[int]] = {}
        for event in self._events:
            if event.kind == "records":
                found.setdefault(event.partitions[0], Counter()).update(event.offsets)
        return found

    def missing(self, ends: Mapping[int, int]) -> dict[int, list[int]]:
        """The first offsets below each partition's end that nobody consumed."""
        consumed = self.consumed()
        lacking = {
            partition: [offset for offset in range(end) if offset not in consumed.get(partition, ())]
            for partition, end in ends.items()
        }
        return {partition: offsets[:10] for partition, offsets in lacking.items() if offsets}

    def repeated(self) -> dict[int, list[int]]:
        """The offsets that were consumed more than once."""
        found = {
            partition: sorted(offset for offset, times in counts.items() if times > 1)
            for partition, counts in self.consumed().items()
        }
        return {partition: offsets for partition, offsets in found.items() if offsets}

    def wrong_values(self) -> list[str]:
        """Records whose value is not the `PARTITION:OFFSET` that `SteadyLoad` gave them."""
        return [
            f"{event.member} {event.partitions[0]} {offset}: {value}"
            for event in self._events
            if event.kind == "records"
            for offset, value in zip(event.offsets, event.values, strict=True)
            if value != f"{event.partitions[0]}:{offset}"
        ]

    def longest_pause(self, partition: int, start: float, end: float) -> float:
        """The longest time between `start` and `end` in which nobody consumed the partition."""
        times = [
            event.at
            for event in self._events
            if event.kind == "records" and event.partitions[0] == partition and start <= event.at <= end
        ]
        edges = [start, *times, end]
        return max(after - before for before, after in pairwise(edges))

    def steps_back(self) -> list[str]:
        """Commits that went behind an earlier one of the same partition."""
        highest: dict[int, int] = {}
        found = []
        for event in self._events:
            if event.kind != "committed":
                continue
            for partition, offset in zip(event.partitions, event.offsets, strict=True):
                if offset < highest.get(partition, 0):
                    found.append(f"{event.member}: {partition} from {highest[partition]} to {offset}")
                highest[partition] = max(offset, highest.get(partition, 0))
        return found

    def committed(self) -> dict[int, int]:
        """The highest committed offset of each partition."""
        highest: dict[int, int] = {}
        for event in self._events:
            if event.kind == "committed":
                for partition, offset in zip(event.partitions, event.offsets, strict=True):
                    highest[partition] = max(offset, highest.get(partition, 0))
        return highest
