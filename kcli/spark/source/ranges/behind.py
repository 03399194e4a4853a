"""How far streams are behind their topics, from the offsets in a query's progress.

The numbers are those of Spark's own Kafka source (`KafkaMicroBatchStream.metrics`), as text like there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kcli.spark.source.ranges.json_forms import flat

if TYPE_CHECKING:
    from collections.abc import Iterable


def behind_latest(sources: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Return the metrics of sources, given the end and the latest offsets of each; empty without offsets.

    Offsets are JSON, or what it stands for; sources of other formats have others, and are passed over.
    """
    behind: list[int] = []
    for end, latest in sources:
        read, there = _parsed(end), _parsed(latest)
        if read is None or there is None:
            continue
        consumed = flat(read)
        behind += [offset - consumed.get(partition, 0) for partition, offset in flat(there).items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _parsed(offsets: Any) -> dict[str, dict[str, int]] | None:  # noqa: ANN401  # JSON or its value
    try:
        value = json.loads(offsets) if isinstance(offsets, str) else offsets
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())
    return value if is_ours else None
