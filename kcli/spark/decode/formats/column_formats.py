"""The formats that need no schema: plain bytes, text, and numbers of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping


class ColumnFormat(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the decoded values, null for bad ones, and the reason of each bad one."""


class Binary:
    type = pa.binary()

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        return column, {}


class Text:
    type = pa.string()

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        """Check all values at once, and singly only if one is bad."""
        try:
            return column.cast(self.type), {}
        except pa.ArrowInvalid:
            values: list[str | None] = []
            bad: dict[int, str] = {}
            for row, raw in enumerate(column.to_pylist()):
                try:
                    values.append(None if raw is None else raw.decode())
                except UnicodeDecodeError:
                    values.append(None)
                    bad[row] = "not UTF-8"
            return pa.array(values, self.type), bad


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Numbers of one size; `dtype` is numpy's name of their encoding."""

    type: pa.DataType
    dtype: str

    def decode(self, column: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
        written = np.dtype(self.dtype)
        size = written.itemsize
        lengths = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
        good = np.flatnonzero(lengths == size)
        _, offsets, data = column.buffers()
        values: np.ndarray = np.zeros(len(column), written.newbyteorder("="))
        if len(good):
            begins = np.frombuffer(offsets, np.int32)[column.offset + good]
            raw = np.frombuffer(data, np.uint8)[begins[:, None] + np.arange(size)]
            values[good] = raw.view(written)[:, 0]
        is_missing: np.ndarray = np.ones(len(column), bool)
        is_missing[good] = False
        wrong = np.flatnonzero((lengths >= 0) & is_missing).tolist()
        bad = {row: f"{lengths[row]} bytes, not {size}" for row in wrong}
        return pa.array(values, self.type, mask=is_missing), bad
