"""Where a log ends: behind its last whole batch.

What a broker was writing when it died, or is writing now, does not count; nor do zeros that a file was made
longer by in advance. Damage that intact batches follow is no end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.entries.segment_scan import scan
from kcli.spark.logs.head_walk import HeadWalk, path_of
from kcli.spark.logs.seek import is_sound, load_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.logs.segments import Segment


def log_end_offset(segments: Sequence[Segment]) -> int:
    """Return the offset behind the last whole batch, 0 without segments. Raises `OSError`."""
    if not segments:
        return 0
    segment = segments[-1]
    with SegmentFile(segment.path) as file:
        index = load_index(segment, file)
        position = index.last_position
        if position and not is_sound(segment, file, index.last_offset, position):
            position = 0
        end = segment.base_offset
        walk = HeadWalk(file, position)
        for head in walk:
            end = head.last_offset + 1
        # Where no entry begins it is the end, unless there are intact ones behind it.
        items = scan(
            path_of(file), start=walk.position, end=file.end, resync=True, segment_base=segment.base_offset
        )
        for item in items:
            if isinstance(item, ScannedEntry) and item.is_valid and not item.damages:
                end = max(end, item.last_offset + 1)
    return end
