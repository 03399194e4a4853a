"""Bytes that were decoded for Parquet are encoded again, bit by bit."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest

from kcli.errors import KcliError
from kcli.spark.importing.original_bytes import is_reversible, original_bytes, original_headers

NOT_A_NUMBER = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([b"a", None, b""], pa.binary(), [b"a", None, b""]),
        ([b"a", None], pa.large_binary(), [b"a", None]),
        (["é", None, ""], pa.string(), ["é".encode(), None, b""]),
        ([1, None, -1], pa.int32(), [b"\0\0\0\1", None, b"\xff\xff\xff\xff"]),
        ([2**40, None], pa.int64(), [struct.pack(">q", 2**40), None]),
        ([0.1, None, -0.0], pa.float64(), [struct.pack(">d", 0.1), None, struct.pack(">d", -0.0)]),
        (
            [NOT_A_NUMBER, math.inf],
            pa.float64(),
            [struct.pack(">d", NOT_A_NUMBER), struct.pack(">d", math.inf)],
        ),
        ([], pa.int32(), []),
    ],
)
def test_bytes_come_back(values: list[object], kind: pa.DataType, expected: list[bytes | None]) -> None:
    column = pa.array(values, kind)
    assert is_reversible(kind)
    assert original_bytes(column) == expected
    assert original_bytes(pa.concat_arrays([column, column]).slice(len(values))) == expected


@pytest.mark.parametrize(
    "kind", [pa.struct([("a", pa.int32())]), pa.bool_(), pa.timestamp("us"), pa.float32()]
)
def test_of_other_types_there_is_no_way_back(kind: pa.DataType) -> None:
    assert not is_reversible(kind)


ROWS = [[("a", b"1"), ("a", None)], None, [], [("b", b"")]]
EXPECTED = [(("a", b"1"), ("a", None)), (), (), (("b", b""),)]
ENTRY = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize("kind", [pa.list_(ENTRY), pa.large_list(ENTRY), pa.map_(pa.string(), pa.binary())])
def test_headers_come_back(kind: pa.DataType) -> None:
    rows: list[object] = [*ROWS]
    if not pa.types.is_map(kind):
        rows = [
            None if row is None else [{"key": name, "value": content} for name, content in row]
            for row in ROWS
        ]
    column = pa.array(rows, kind)
    assert original_headers(column) == EXPECTED
    for first in range(5):
        assert (
            original_headers(pa.concat_arrays([column, column]).slice(first, 4)) == (EXPECTED * 2)[first:][:4]
        )


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.list_(pa.struct([("k", pa.string())]))]
)
def test_other_columns_hold_no_headers(kind: pa.DataType) -> None:
    with pytest.raises(KcliError, match="the column `headers` holds no headers"):
        original_headers(pa.array([None], kind))
