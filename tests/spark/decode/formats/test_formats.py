"""Formats: bytes become text, numbers, or what a schema says; what does not fit is refused, null, or kept."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.spark.decode.formats.formats import BadValue, Formats, column_format
from kcli.spark.split import FieldFormat, OnBadValue

PACKERS = {"int": ">i", "long": ">q", "double": ">d"}


def formats(key: str = "binary", value: str = "binary", on_bad: str = "fail") -> Formats:
    return Formats(
        "orders", 3, key=FieldFormat(key), value=FieldFormat(value), on_bad_value=OnBadValue(on_bad)
    )


def batch(*rows: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "offset": pa.array(range(100, 100 + len(rows))),
    }
    return pa.record_batch(columns)


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("binary", b"\xff", b"\xff"),
        ("string", "grün".encode(), "grün"),
        ("string", b"", ""),
        ("int", b"\xff\xff\xff\xfe", -2),
        ("long", b"\x00" * 7 + b"\x07", 7),
        ("double", b"\x3f\xf8" + b"\x00" * 6, 1.5),
        ("json", b'{"a": 1}', '{"a": 1}'),
    ],
)
def test_bytes_become_what_their_format_says(name: str, raw: bytes, expected: object) -> None:
    made = formats(value=name)
    decoded = made.apply(batch((b"k", raw), (None, None)))
    assert decoded.batch.schema == made.schema(batch((None, None)).schema)
    assert decoded.batch.column("value").to_pylist() == [expected, None]
    assert (decoded.bad_values, decoded.dead_letters) == (0, None)


def test_a_column_may_be_left_out() -> None:
    made = formats(key="none", value="string")
    decoded = made.apply(batch((b"k", b"v"))).batch
    assert decoded.to_pylist() == [{"value": "v", "offset": 100}]
    assert made.schema(batch((None, None)).schema) == decoded.schema


BAD = ((b"\x00\x00\x00\x01", b"a"), (b"abc", b"\xff"), (None, None), (b"\x00\x00\x00\x02", b"\xc3"))


def test_the_first_bad_value_is_named_with_its_place() -> None:
    with pytest.raises(BadValue, match=r"bad key: 3 bytes, not 4, in `orders-3` at offset 101"):
        formats("int", "string").apply(batch(*BAD))


def test_bad_values_become_null_and_are_counted() -> None:
    decoded = formats("int", "string", "null").apply(batch(*BAD))
    assert decoded.batch.column("key").to_pylist() == [1, None, None, 2]
    assert decoded.batch.column("value").to_pylist() == ["a", None, None, None]
    assert (decoded.bad_values, decoded.dead_letters) == (3, None)


def test_rows_with_bad_values_are_kept_as_they_were() -> None:
    decoded = formats("int", "string", "dead-letter").apply(batch(*BAD))
    assert decoded.batch.column("offset").to_pylist() == [100, 102]
    assert decoded.bad_values == 3
    assert decoded.dead_letters is not None
    assert decoded.dead_letters.to_pylist() == [
        {"key": b"abc", "value": b"\xff", "offset": 101, "error": "key: 3 bytes, not 4"},
        {"key": b"\x00\x00\x00\x02", "value": b"\xc3", "offset": 103, "error": "value: not UTF-8"},
    ]


@pytest.mark.parametrize("name", PACKERS)
@given(st.lists(st.none() | st.binary(max_size=9) | st.binary(min_size=8, max_size=8)), st.integers(0, 3))
def test_numbers_are_read_as_struct_reads_them(name: str, raw: list[bytes | None], cut: int) -> None:
    packer = struct.Struct(PACKERS[name])
    fitting = [None if one is None or len(one) != packer.size else packer.unpack(one)[0] for one in raw]
    column = pa.array(raw, pa.binary()).slice(cut)
    made = column_format(FieldFormat(name))
    assert made is not None
    decoded, bad = made.decode(column)
    assert list(map(str, decoded.to_pylist())) == list(map(str, fitting[cut:]))
    wrong = [one is not None and len(one) != packer.size for one in raw[cut:]]
    assert sorted(bad) == [row for row, is_wrong in enumerate(wrong) if is_wrong]


@given(st.lists(st.none() | st.binary(max_size=4) | st.text(max_size=4).map(str.encode)), st.integers(0, 3))
def test_text_is_utf_8(raw: list[bytes | None], cut: int) -> None:
    made = column_format(FieldFormat("string"))
    assert made is not None
    decoded, bad = made.decode(pa.array(raw, pa.binary()).slice(cut))
    decoded.validate(full=True)
    for row, (one, found) in enumerate(zip(raw[cut:], decoded.to_pylist(), strict=True)):
        if row in bad:
            assert found is None
            with pytest.raises(UnicodeDecodeError):
                (one or b"").decode()
        else:
            assert found == (None if one is None else one.decode())


def test_a_format_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="cobol"):
        column_format(FieldFormat("cobol"))
