"""Zigzag variable-length integers: a table of encodings, round trips, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.varints import SMALL_VARINTS, encode_varint, read_varint, read_varlong, wrap_int64

ENCODINGS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "encoded"), ENCODINGS)
def test_numbers_have_one_encoding(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(bytes.fromhex(encoded)))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varlongs_come_back_and_say_where_they_end(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert read_varlong(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_cut_number_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="ends inside a number"):
        read_varint(data, 0)


def test_a_number_that_goes_on_beyond_its_type_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="longer than its type"):
        read_varint(b"\x80" * 5 + b"\x01", 0)
    with pytest.raises(CorruptRecord, match="longer than its type"):
        read_varlong(b"\x80" * 10 + b"\x01", 0)


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [(0, 0), (-1, -1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (2**64 - 1, -1)],
)
def test_sums_beyond_64_bits_wrap(value: int, wrapped: int) -> None:
    assert wrap_int64(value) == wrapped


def test_the_table_of_small_numbers_is_what_encoding_makes() -> None:
    assert len(SMALL_VARINTS) == 8192
    for folded, encoded in enumerate(SMALL_VARINTS):
        assert read_varint(encoded, 0) == ((folded >> 1) ^ -(folded & 1), len(encoded))
