"""Where the next whole entry begins in an answer of which a part is damaged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.spark.columns.entry import entry_at, size_at

if TYPE_CHECKING:
    from kcli.spark.columns.corrupt_batch import CorruptBatch

# The head of an entry up to its magic: an offset below 2^56, a size below 2^24, any of the magics.
_HEAD = re.compile(rb"(?=\x00.{7}\x00.{7}[\x00-\x02])", re.DOTALL)


def next_entry(view: memoryview, damage: CorruptBatch, at: int) -> int:
    """Return where an entry with the right checksum begins behind the damage at `at`; the end without one.

    The size that the damaged entry claims is tried first.
    """
    stop = len(view)
    behind = at + damage.size
    if damage.size and (behind == stop or (behind < stop and is_entry(view, behind))):
        return behind
    for match in _HEAD.finditer(view, at + 1):
        if is_entry(view, match.start()):
            return match.start()
    return stop


def is_entry(view: memoryview, at: int) -> bool:
    """Return whether a whole entry with the right checksum is there."""
    try:
        size = size_at(view, at, len(view))
        if not size or at + size > len(view):
            return False
        entry_at(view, at, size)
    except CorruptRecord:
        return False
    return True
