"""Who set the timestamps of a chunk's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.records.batch_header import TIMESTAMP_TYPE_BIT
from kcli.spark.columns.chunk import ATTRIBUTES, COUNT

if TYPE_CHECKING:
    from kcli.spark.columns.chunk import Chunk


def timestamp_types(chunk: Chunk) -> np.ndarray | int:
    """Return 0 for create time and 1 for log append time: one number if all records have the same."""
    types = (chunk.batches[:, ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0).astype(np.int32)
    if not len(types) or (types == types[0]).all():
        return int(types[0]) if len(types) else 0
    return np.repeat(types, chunk.batches[:, COUNT])
