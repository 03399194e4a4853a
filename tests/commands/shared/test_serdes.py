"""Serdes: the bytes and the text of the Java classes of the same names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.shared.java import java_double
from kcli.commands.shared.serdes import deserializer, serializer
from kcli.errors import KcliError, UsageError


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("short", b"-2", b"\xff\xfe"),
        ("int", b"258", b"\x00\x00\x01\x02"),
        ("org.apache.kafka.common.serialization.IntegerSerializer", b"1", b"\x00\x00\x00\x01"),
        ("LongSerializer", b"-1", b"\xff" * 8),
        ("float", b"0.1", b"\x3d\xcc\xcc\xcd"),
        ("double", b"1.5", b"\x3f\xf8" + b"\x00" * 6),
        ("uuid", b"6F1C26A8-3B0D-4A2E-9D7A-1F6E5C4B3A29", b"6f1c26a8-3b0d-4a2e-9d7a-1f6e5c4b3a29"),
        ("boolean", b"True", b"\x01"),
        ("boolean", b"false", b"\x00"),
    ],
)
def test_text_is_serialized_as_in_java(name: str, text: bytes, data: bytes) -> None:
    serialize = serializer(name)
    assert serialize is not None
    assert serialize(text) == data
    deserialize = deserializer(name.removesuffix("Serializer"))
    assert deserialize is not None
    assert deserialize(data) == text.lower()


@pytest.mark.parametrize("name", ["string", "bytes", "StringSerializer", "ByteArraySerializer"])
def test_text_and_bytes_stay_as_they_are(name: str) -> None:
    assert serializer(name) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int", b"one"),
        ("int", b"2147483648"),
        ("short", b"\xff"),
        ("uuid", b"1"),
        ("boolean", b"yes"),
        ("void", b""),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(name: str, text: bytes) -> None:
    serialize = serializer(name)
    assert serialize is not None
    with pytest.raises(KcliError, match=f"not a value of type {name}"):
        serialize(text)


@pytest.mark.parametrize(
    ("name", "size"), [("int", 3), ("long", 4), ("double", 9), ("boolean", 2), ("uuid", 16)]
)
def test_data_of_another_size_is_refused(name: str, size: int) -> None:
    deserialize = deserializer(name)
    assert deserialize is not None
    with pytest.raises(KcliError, match=f"not a value of type {name}: {size} bytes"):
        deserialize(b"\x00" * size)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        deserializer("AvroDeserializer")
    assert raised.value.hint == "string, bytes, short, int, long, float, double, uuid, boolean, void"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1234567.0, "1234567.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-1.25e10, "-1.25E10"),
        (1e100, "1.0E100"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_printed_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_same_number(value: float) -> None:
    assert float(java_double(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_printed_single_is_the_same_single(value: float) -> None:
    serialize, deserialize = serializer("float"), deserializer("float")
    assert serialize is not None
    assert deserialize is not None
    data = serialize(repr(value).encode())
    assert serialize(deserialize(data)) == data
