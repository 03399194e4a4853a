"""Decodes a chunk to a record batch with the fastest decoder that this machine has.

`KCLI_DECODER` forces one: `numba`, `numpy` or `python`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from kcli.errors import UsageError, install_hint
from kcli.spark.decode.arrow_columns import assemble
from kcli.spark.decode.chunk import Chunk, Fields
from kcli.spark.decode.numpy_decoder import decode_with_numpy
from kcli.spark.decode.python_decoder import decode_plainly

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

Decoder: TypeAlias = Callable[[Chunk, Collection[str]], Fields]

ENVIRONMENT_VARIABLE = "KCLI_DECODER"


def decode(chunk: Chunk, topic: str, partition: int, columns: Sequence[str]) -> pa.RecordBatch:
    """Return a chunk's rows in `chunk.start..chunk.end - 1` with these columns; raises `CorruptRecords`."""
    fields = decoder_named(os.environ.get(ENVIRONMENT_VARIABLE, ""))(chunk, columns)
    return assemble(fields, topic, partition, columns, start=chunk.start, end=chunk.end)


@cache
def decoder_named(name: str) -> Decoder:
    """Return the decoder of that name, for an empty name the fastest; raises `UsageError`."""
    match name:
        case "python":
            return decode_plainly
        case "numpy":
            return decode_with_numpy
        case "numba" | "":
            try:
                from kcli.spark.decode.numba_decoder import decode_with_numba
            except ImportError as error:
                if not name:
                    return decode_with_numpy
                raise UsageError(f"no compiled decoder: {error}", hint=install_hint("fast")) from error
            return decode_with_numba
    raise UsageError(f"unknown decoder: {name}", hint="`KCLI_DECODER` is numba, numpy or python")
