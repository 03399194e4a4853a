"""DumpErrors: the errors that Kafka's dump tool prints on standard error after all files, in its words.

Kafka's tool prints them in the order of its Java maps: the files like a `HashMap`, the pairs of a file by
their first number. At most `MOST_PAIRS` pairs are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from kcli.commands.shared.java import computed_map_order
from kcli.protocol.java import string_hash

MOST_PAIRS = 200_000

Pair = tuple[int, int]
Kept = TypeVar("Kept", dict[int, int], list[Pair])


class DumpErrors:
    """Pairs of numbers that do not fit, by file."""

    def __init__(self) -> None:
        self._index_mismatches: dict[str, dict[int, int]] = {}
        self._timestamp_mismatches: dict[str, list[Pair]] = {}
        self._timestamps_out_of_order: dict[str, list[Pair]] = {}
        self._offsets_not_found: dict[str, list[Pair]] = {}
        self._gaps: dict[str, dict[int, int]] = {}
        self._damaged: list[str] = []
        self._failed_sanity: list[tuple[str, str]] = []
        self._room = MOST_PAIRS
        self.omitted = 0

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add an index entry that points to a batch with another last offset, -1 for no batch."""
        self._put(self._index_mismatches, path, index_offset, log_offset)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """Add a time index entry whose batch has another largest timestamp."""
        self._add(self._timestamp_mismatches, path, (index_timestamp, log_timestamp))

    def timestamp_out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """Add a time index entry whose timestamp is not above the previous one."""
        self._add(self._timestamps_out_of_order, path, (timestamp, previous))

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add a time index entry whose offset is not the last of a batch; `log_offset` is -1 at the end."""
        self._add(self._offsets_not_found, path, (index_offset, log_offset))

    def gaps(self, path: str, pairs: Iterable[Pair]) -> None:
        """Add pairs of record offsets that do not follow each other."""
        for last, following in pairs:
            self._put(self._gaps, path, last, following)

    def failed_sanity(self, path: str, reason: str) -> None:
        """Add an index that a starting broker rebuilds. Kafka's tool ends with an exception here."""
        self._failed_sanity.append((path, reason))

    def damaged_file(self, message: str) -> None:
        self._damaged.append(message)

    def _put(self, kept: dict[str, dict[int, int]], path: str, first: int, second: int) -> None:
        if self._has_room():
            kept.setdefault(absolute(path), {})[first] = second

    def _add(self, kept: dict[str, list[Pair]], path: str, pair: Pair) -> None:
        if self._has_room():
            kept.setdefault(absolute(path), []).append(pair)

    def _has_room(self) -> bool:
        if self._room > 0:
            self._room -= 1
            return True
        self.omitted += 1
        return False

    def lines(self) -> Iterator[str]:
        yield from self._damaged
        for path, reason in self._failed_sanity:
            yield f"{path} failed sanity check: {reason}"
        for path, by_offset in in_java_order(self._index_mismatches):
            yield f"Mismatches in :{path}"
            for first in sorted(by_offset, reverse=True):
                yield f"  Index offset: {first}, log offset: {by_offset[first]}"
        for path, pairs in in_java_order(self._timestamp_mismatches):
            yield f"Found timestamp mismatch in :{path}"
            for first, second in pairs:
                yield f"  Index timestamp: {first}, log timestamp: {second}"
        for path, pairs in in_java_order(self._timestamps_out_of_order):
            yield f"Found out of order timestamp in :{path}"
            for first, second in pairs:
                yield f"  Index timestamp: {first}, Previously indexed timestamp: {second}"
        for path, pairs in in_java_order(self._offsets_not_found):
            yield f"The following indexed offsets are not found in :{path}"
            for first, second in pairs:
                yield f"Indexed offset: {first}, found log offset: {second}"
        for path, by_offset in in_java_order(self._gaps):
            yield f"Non-consecutive offsets in {path}"
            for first in sorted(by_offset):
                yield f"  {first} is followed by {by_offset[first]}"
        if self.omitted:
            yield f"  {self.omitted} more of these are not listed"


def absolute(path: str) -> str:
    """Return `File.getAbsolutePath()`, which keeps dots and links."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def in_java_order(kept: Mapping[str, Kept]) -> Iterator[tuple[str, Kept]]:
    """Yield the files in the order of a Java `HashMap`."""
    # A file is done before the next one begins, so only the last one can have been asked for again.
    paths = list(kept)
    asked_again = bool(paths) and len(kept[paths[-1]]) > 1
    for path in computed_map_order(paths, string_hash, asked_again=asked_again):
        yield path, kept[path]
