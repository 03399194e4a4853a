"""The reason why bytes are malformed: in Kafka's words, and never in those of Python's own errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.internal.coordinator_records import GROUP_RECORDS, TRANSACTION_RECORDS
from kcli.protocol.internal.metadata_records import METADATA_RECORDS
from kcli.protocol.schema.declaration import DecodeError, codec, message_info
from tests.support.specimens import specimen

PYTHON = re.compile(r"unpack|buffer of|index out of range|codec can't|subscriptable|int\(\)")
CLASSES = sorted(
    {cls for records in (GROUP_RECORDS, TRANSACTION_RECORDS) for pair in records.values() for cls in pair}
    | {*METADATA_RECORDS.values()},
    key=lambda cls: cls.__name__,
)


def reason(cls: type, data: bytes, version: int) -> str | None:
    try:
        codec(cls, version).decode(data)
    except DecodeError as error:
        return error.reason
    return None


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_record_cut_anywhere_has_a_reason_in_plain_words(cls: type) -> None:
    info = message_info(cls)
    for version in (info.min_version, info.max_version):
        data = codec(cls, version).encode(specimen(cls, version))
        for end in range(len(data)):
            told = reason(cls, data[:end], version)
            assert told is not None
            assert not PYTHON.search(told)


@given(st.sampled_from(CLASSES), st.binary(max_size=40))
def test_any_bytes_have_a_reason_in_plain_words(cls: type, data: bytes) -> None:
    told = reason(cls, data, message_info(cls).max_version)
    assert told is None or not PYTHON.search(told)


OFFSET_KEY = GROUP_RECORDS[1][0]
OFFSET_VALUE = GROUP_RECORDS[1][1]
GROUP_VALUE = GROUP_RECORDS[2][1]


@pytest.mark.parametrize(
    ("cls", "version", "data", "expected"),
    [
        (OFFSET_KEY, 0, "0001", "Error reading byte array of 1 byte(s): only 0 byte(s) available"),
        (OFFSET_KEY, 0, "00", "Error reading `group` of 2 byte(s): only 1 byte(s) available"),
        (OFFSET_KEY, 0, "ffff", "non-nullable field group was serialized as null"),
        (OFFSET_VALUE, 3, "00", "Error reading `offset` of 8 byte(s): only 1 byte(s) available"),
        (
            GROUP_VALUE,
            0,
            "0000 00000001 ffff ffff 7fffffff",
            "Tried to allocate a collection of size 2147483647, but there are only 0 bytes remaining.",
        ),
    ],
)
def test_the_words_of_kafka(cls: type, version: int, data: str, expected: str) -> None:
    assert reason(cls, bytes.fromhex(data), version) == expected
