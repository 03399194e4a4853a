"""Headers as a map: of headers with the same key the last one counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

HEADER_MAP = pa.map_(pa.string(), pa.binary())


def header_maps(headers: pa.ListArray) -> pa.MapArray:
    """Return lists of headers as maps; no list stays null."""
    entries = headers.flatten()
    is_null = headers.is_null().to_numpy(zero_copy_only=False)
    counts = headers.value_lengths().fill_null(0).to_numpy()
    rows = np.repeat(np.arange(len(headers)), counts)
    kept = _last_of_each(rows, entries.field("key"))
    if len(kept) < len(entries):
        entries = entries.take(pa.array(kept))
        counts = np.bincount(rows[kept], minlength=len(headers))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    # A null offset makes a null map; the last one only ends what is before it.
    starts = pa.array(offsets, pa.int32(), mask=np.append(is_null, False))
    return pa.MapArray.from_arrays(starts, entries.field("key"), entries.field("value"))


def _last_of_each(rows: np.ndarray, keys: pa.Array) -> np.ndarray:
    """Return the positions of the last entry of each key in each row, ascending."""
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    pairs = rows * (int(codes.max()) + 1 if len(codes) else 1) + codes
    _, first_from_behind = np.unique(pairs[::-1], return_index=True)
    found: np.ndarray = np.sort(len(pairs) - 1 - first_from_behind)
    return found
