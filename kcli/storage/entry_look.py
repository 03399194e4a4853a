"""EntryLook: whether an entry begins at a place in a log file, and whether its checksum is right.

The last entry may be incomplete only because a broker is writing it. It is looked at again while the file
changes, and after a pause, until it is whole. A writer that has no processor for a while pauses as well, so
a file that was changed just now gets some more time than one that has been at rest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION
from kcli.storage.batch_run import MAX_OFFSET
from kcli.storage.damage import DamageKind
from kcli.storage.entry_head import EntryHead, HeadProblem, crc_of, structural_problem
from kcli.storage.scanned_entry import view_of

if TYPE_CHECKING:
    from kcli.storage.entry_search import EntrySearch
    from kcli.storage.segment_file import SegmentFile

_TRUNCATED = (DamageKind.TRUNCATED_HEADER, DamageKind.TRUNCATED_BATCH)
_MAX_LOOKS = 20
_PAUSE_SECONDS = 0.005
_RECENT_SECONDS = 0.1
"""For how long a file that does not change any more may still be in the middle of a change."""


class EntryLook(NamedTuple):
    """The first bytes at a place; why no entry begins with them, if so; whether the checksum matches."""

    head: bytes
    problem: HeadProblem | None
    is_valid: bool


def look_at(file: SegmentFile, position: int, search: EntrySearch, *, follows: bool) -> EntryLook:
    """Look at the place `position`. With `follows` the file may grow by the rest of the entry there.

    `search` knows how much may be spent on checksums, and what can follow an entry. Raises `OSError`.
    """
    looked = _look_once(file, position, search)
    for number in range(_MAX_LOOKS if follows else 0):
        # What was read while it was written may be whole by now, so the second look needs no reason.
        if looked.is_valid or (number and not _may_be_being_written(file, position, looked)):
            break
        size = file.has_changed()
        if number and size is None:
            size = size_after_a_pause(file)
        if size is not None:
            _let_grow(file, position, size)
        again = _look_once(file, position, search)
        if number and size is None and again == looked:
            break
        looked = again
    return looked


def _look_once(file: SegmentFile, position: int, search: EntrySearch) -> EntryLook:
    head = file.read(position, HEADER_SIZE)
    if len(head) < min(HEADER_SIZE, file.end - position):
        file.end = position + len(head)  # the file was cut
    problem = structural_problem(head, file.end - position)
    if problem is not None:
        return EntryLook(head, problem, False)
    view = view_of(head)
    claimed = EntryHead(
        position, view.magic, view.size_in_bytes, view.crc, view.last_offset, view.last_offset
    )
    if not search.affords(claimed.size) and not search.leads_on(claimed):
        return EntryLook(head, None, False)
    return EntryLook(head, None, crc_of(file, position, claimed.size, claimed.magic) == claimed.crc)


def _may_be_being_written(file: SegmentFile, position: int, looked: EntryLook) -> bool:
    if looked.problem is not None:
        return looked.problem.kind in _TRUNCATED
    end = position + view_of(looked.head).size_in_bytes
    return end + file.zeros_from(end) >= file.end


def size_after_a_pause(file: SegmentFile) -> int | None:
    """Return the size of a file that goes on changing, None if it rests."""
    for _ in range(int(_RECENT_SECONDS / _PAUSE_SECONDS)):
        time.sleep(_PAUSE_SECONDS)
        size = file.has_changed()
        if size is not None or not 0 <= time.time() - file.changed_at < _RECENT_SECONDS:
            return size
    return None


def _let_grow(file: SegmentFile, position: int, size: int) -> None:
    """Take in as much of a file that has `size` bytes now as belongs to the entry at a position."""
    head = file.read(position, HEADER_SIZE, size)
    wanted = HEADER_SIZE
    if len(head) > MAGIC_POSITION and structural_problem(head, MAX_OFFSET) is None:
        wanted = LOG_OVERHEAD + int.from_bytes(head[8:12], "big")
    file.end = min(max(file.end, position + wanted), size)
