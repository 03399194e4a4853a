"""RowShaper: from the columns that a reader gives to those that are written.

Offsets are always read, and timestamps where directories depend on them: a file's bounds and place need
them even if they are not among its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from kcli.spark.columns.schema import arrow_schema
from kcli.spark.reading import COLUMNS

if TYPE_CHECKING:
    import numpy as np

    from kcli.spark.job.options import WriteOptions


class Shaped(NamedTuple):
    """Rows as they are written, and where they belong."""

    rows: pa.RecordBatch
    offsets: np.ndarray
    times_us: np.ndarray | None


class RowShaper:
    """Leaves out what is not wanted and decodes keys and values."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        in_path = options.layout.path_columns
        self._written = [one for one in options.reading.columns if one not in in_path]
        needed = {*self._written, "offset"} | ({"timestamp"} if options.layout.by_date else set())
        self.columns = tuple(one for one in COLUMNS if one in needed)
        """What is asked of the reader."""
        self.schema = arrow_schema(self._written)
        """What is written."""

    def shape(self, batch: pa.RecordBatch) -> Shaped:
        """Return the rows of a batch that are written."""
        offsets = batch.column("offset").to_numpy()
        times = None
        if "timestamp" in self.columns:
            times = batch.column("timestamp").view(pa.int64()).to_numpy(zero_copy_only=False)
        return Shaped(batch.select(self._written), offsets, times)
