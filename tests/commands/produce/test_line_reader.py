"""LineReader and LineSplitter: every reader property, every refusal, and lines cut at any place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.commands.produce.line_reader import LineReader, LineSplitter, ReaderFormat
from kcli.errors import KcliError, UsageError

KEYS = {"parse.key": "true"}
HEADERS = {"parse.headers": "true"}
BOTH = {**KEYS, **HEADERS}


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"plain", (None, b"plain", ())),
        ({}, b"", (None, b"", ())),
        ({}, b"k\tv", (None, b"k\tv", ())),
        ({"parse.key": "false"}, b"k\tv", (None, b"k\tv", ())),
        (KEYS, b"k\tv", (b"k", b"v", ())),
        (KEYS, b"\tv", (b"", b"v", ())),
        (KEYS, b"k\tv\tw", (b"k", b"v\tw", ())),
        ({"parse.key": " TRUE "}, b"k\tv", (b"k", b"v", ())),
        ({**KEYS, "key.separator": "::"}, b"k::v", (b"k", b"v", ())),
        ({**KEYS, "ignore.error": "true"}, b"whole", (None, b"whole", ())),
        (HEADERS, b"a:1,b:2\tv", (None, b"v", (("a", b"1"), ("b", b"2")))),
        (HEADERS, b"a:1:2\tv", (None, b"v", (("a", b"1:2"),))),
        (BOTH, b"a:1\tk\tv", (b"k", b"v", (("a", b"1"),))),
        ({**BOTH, "ignore.error": "true"}, b"a\tk\tv", (b"k", b"v", (("a", None),))),
        ({**BOTH, "ignore.error": "true"}, b"v", (None, b"v", ())),
        (
            {**BOTH, "headers.delimiter": "|", "headers.separator": ";", "headers.key.separator": "="},
            b"a=1;b=2|k\tv",
            (b"k", b"v", (("a", b"1"), ("b", b"2"))),
        ),
        ({**BOTH, "null.marker": "NULL"}, b"NULL\tNULL\tNULL", (None, None, ())),
        ({**BOTH, "null.marker": "NULL"}, b"a:NULL\tk\tv", (b"k", b"v", (("a", None),))),
        ({"value.serializer": "int"}, b"258", (None, b"\x00\x00\x01\x02", ())),
        ({**KEYS, "key.serializer": "short"}, b"1\tv", (b"\x00\x01", b"v", ())),
        ({"value.serializer": "int", "null.marker": "-"}, b"-", (None, None, ())),
        ({}, b"\xff\xfe", (None, b"\xff\xfe", ())),
    ],
)
def test_a_line_becomes_a_record(properties: dict[str, str], line: bytes, expected: object) -> None:
    assert LineReader(ReaderFormat.from_properties(properties)).parse(line) == expected


@pytest.mark.parametrize(
    ("properties", "line", "message"),
    [
        (KEYS, b"whole", "no key separator found on line 2: whole"),
        (HEADERS, b"whole", "no headers delimiter found on line 2: whole"),
        (HEADERS, b"a\tv", "no header key separator found on line 2: a"),
        ({**HEADERS, "null.marker": "N"}, b"N:1\tv", "a header key is the null marker on line 2"),
        ({"value.serializer": "int"}, b"one", "line 2: not a value of type int: one"),
    ],
)
def test_a_line_that_cannot_be_parsed_is_named(properties: dict[str, str], line: bytes, message: str) -> None:
    good = {"value.serializer": b"1"}.get(next(iter(properties)), b"a:1\tk\tv")
    reader = LineReader(ReaderFormat.from_properties(properties))
    with pytest.raises(KcliError) as raised:
        list(reader.records([good, line]))
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.delimiter": ","}, "`headers.delimiter` and `headers.separator` may not be equal: ,"),
        ({"headers.separator": ":"}, "`headers.separator` and `headers.key.separator` may not be equal: :"),
        ({"headers.delimiter": ":"}, "`headers.delimiter` and `headers.key.separator` may not be equal: :"),
        ({"null.marker": "\t"}, "`null.marker` and `key.separator` may not be equal: \t"),
        ({"null.marker": ","}, "`null.marker` and `headers.separator` may not be equal: ,"),
        ({"key.separator": ""}, "`key.separator` may not be empty"),
        ({"parse.keys": "true"}, "there is no reader property `parse.keys`"),
        ({"key.serializer": "json"}, "there is no serializer `json`"),
        ({"parse.key": "maybe"}, "invalid value for `parse.key`: maybe"),
        ({"parse.headers": "1"}, "invalid value for `parse.headers`: 1"),
        ({"ignore.error": ""}, "invalid value for `ignore.error`: ''"),
    ],
)
def test_properties_that_make_no_sense_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        ReaderFormat.from_properties(properties)
    assert raised.value.message == message


@given(
    st.lists(
        st.binary(max_size=5).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")), max_size=9
    ),
    st.lists(st.integers(0, 60), max_size=9),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
def test_lines_are_the_same_wherever_chunks_are_cut(
    lines: list[bytes], cuts: list[int], end: bytes, with_last_end: bool
) -> None:
    text = b"".join(line + end for line in lines)
    if lines and lines[-1] and not with_last_end:
        text = text.removesuffix(end)
    splitter = LineSplitter()
    found: list[bytes] = []
    size = 0

    def take(some: list[bytes]) -> None:
        nonlocal size
        # The size of the first lines is the offset of the next one.
        for count in range(len(some)):
            assert text[size + splitter.size_of(count) :].startswith(some[count])
        found.extend(some)
        size += splitter.size_of(len(some))

    start = 0
    for cut in [*sorted(cuts), len(text)]:
        if text[start:cut]:
            take(splitter.feed(text[start:cut]))
        start = max(start, cut)
    take(splitter.finish())
    assert found == lines
    assert size == len(text)
