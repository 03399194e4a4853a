"""What compaction does with records: compiled and in Python the same, whatever the bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, parse_records
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.protocol.records.record_filter import (
    Selection,
    index_keys,
    index_keys_in_python,
    rebase_records,
    rebase_records_in_python,
    select_records,
    select_records_in_python,
)
from kcli.protocol.records.record_walk import RECORD_WALK
from kcli.storage.cleaning.offset_map import ENTRY_BYTES, KEY_FORM, stored_key
from tests.protocol.records.test_record_walk import RECORDS, Records, build, mutated, record_of

BASE_OFFSET = 1000
ALL_ROOM = (0, 10**9, ENTRY_BYTES)
KEYS = st.sampled_from([b"", b"a", b"b", b"k" * 24, b"l" * 25, b"m" * 70])
MAPS = st.dictionaries(KEYS.map(stored_key), st.integers(BASE_OFFSET - 3, BASE_OFFSET + 25))
LIMITS = st.tuples(st.integers(BASE_OFFSET - 1, BASE_OFFSET + 25), st.booleans())


def outcome(call: Callable[[], Any]) -> object:
    """Return what a call returns, or the message of the error that it raises."""
    try:
        return call()
    except CorruptRecord as error:
        return error.message


def keyed(records: Records, keys: list[bytes | None]) -> bytes:
    """Return the bytes of records that have these keys in turn."""
    builder = RecordBatchBuilder(base_offset=BASE_OFFSET)
    for number, (timestamp, _, value, headers) in enumerate(records):
        builder.append(timestamp, keys[number % len(keys)], value, headers)
    return bytes(builder.build()[HEADER_SIZE:])


def parsed(data: bytes, count: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for record in parse_records(data, count, BASE_OFFSET, 0, None, -1)
    ]


def test_it_is_compiled_where_the_walk_is() -> None:
    assert (index_keys is not index_keys_in_python) == (RECORD_WALK == "compiled")


def test_a_module_of_a_former_version_leaves_it_to_python() -> None:
    program = """if True:
        import sys, types
        former = types.ModuleType("kcli.protocol.records._record_walk")
        former.walk_records = print
        sys.modules[former.__name__] = former
        from kcli.protocol.records import record_filter, record_walk
        print(record_walk.RECORD_WALK, record_walk.walk_records is print,
              record_filter.index_keys is record_filter.index_keys_in_python)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "outdated True True\n"


@given(RECORDS, st.lists(KEYS | st.none(), min_size=1), st.integers(BASE_OFFSET, BASE_OFFSET + 20))
def test_the_map_gets_the_last_offset_of_each_key(
    records: Records, keys: list[bytes | None], first: int
) -> None:
    data, offsets = keyed(records, keys), {}
    index_keys(data, 0, len(records), BASE_OFFSET, offsets, (first, 10**9, ENTRY_BYTES), KEY_FORM)
    assert offsets == {
        stored_key(key): offset
        for offset, _, key, _ in parsed(data, len(records))
        if key is not None and offset >= first
    }


@given(RECORDS, st.lists(KEYS | st.none(), min_size=1), MAPS, LIMITS)
def test_what_no_later_record_replaces_stays(
    records: Records, keys: list[bytes | None], offsets: dict[bytes, int], limits: tuple[int, bool]
) -> None:
    data = keyed(records, keys)
    selection = Selection(*select_records(data, 0, len(records), BASE_OFFSET, offsets, limits, KEY_FORM))

    def stays(offset: int, key: bytes | None, value: bytes | None) -> bool:
        if offset >= limits[0]:
            return True
        if key is None or offset < offsets.get(stored_key(key), -1):
            return False
        return value is not None or not limits[1]

    expected = [each for each in parsed(data, len(records)) if stays(each[0], each[2], each[3])]
    bounds = iter(selection.runs)
    kept = b"".join(data[start:end] for start, end in zip(bounds, bounds, strict=True))
    assert parsed(kept, selection.kept) == expected
    dropped = selection.superseded + selection.keyless + selection.tombstones
    assert selection.kept + dropped == len(records)
    assert selection.has_tombstone == any(value is None for *_, value in expected)
    if expected:
        assert selection.first_delta == expected[0][1]
        assert selection.max_delta == max(timestamp for _, timestamp, *_ in expected)


@given(RECORDS, st.integers(-(2**62), 2**62) | st.integers(-200, 200), st.none() | st.integers(-300, 300))
def test_timestamps_move_and_nothing_else(records: Records, shift: int, same: int | None) -> None:
    batch = RecordBatch(build(records))
    data = bytes(batch.buffer[HEADER_SIZE:])
    rebased = rebase_records(data, [0, len(data)], shift, same)
    before = list(parse_records(data, batch.count, 0, 0, None, -1))
    after = list(parse_records(rebased, batch.count, 0, 0, None, -1))
    for old, new in zip(before, after, strict=True):
        assert new.timestamp == (old.timestamp + shift if same is None else same)
        new.timestamp = old.timestamp
    assert before == after


@settings(max_examples=400)
@given(mutated(), MAPS, LIMITS, st.integers(0, 500))
def test_both_return_the_same_of_any_bytes(
    case: tuple[bytes, int], offsets: dict[bytes, int], limits: tuple[int, bool], room: int
) -> None:
    data, count = case
    arguments = data, 0, count, BASE_OFFSET
    first, second = dict(offsets), dict(offsets)
    map_limits = limits[0], room, ENTRY_BYTES
    assert outcome(lambda: index_keys(*arguments, first, map_limits, KEY_FORM)) == outcome(
        lambda: index_keys_in_python(*arguments, second, map_limits, KEY_FORM)
    )
    assert first == second
    selected = outcome(lambda: select_records(*arguments, offsets, limits, KEY_FORM))
    assert selected == outcome(lambda: select_records_in_python(*arguments, offsets, limits, KEY_FORM))
    for same in (None, 77):
        runs = [0, len(data)]
        assert outcome(lambda: rebase_records(data, runs, 9, same)) == outcome(  # noqa: B023
            lambda: rebase_records_in_python(data, runs, 9, same)  # noqa: B023
        )


BAD = "a record does not fit its batch"
SOUND = record_of("00 00 00 02 6b 02 76 00")


@pytest.mark.parametrize("select", [select_records, select_records_in_python], ids=["chosen", "Python"])
@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (SOUND, 2, "a record batch holds fewer records than it declares"),
        (SOUND + b"\0", 1, "a record batch holds more than the records it declares"),
        (SOUND + SOUND[:-1], 2, BAD),
        (b"\x01\x00", 1, BAD),
        (b"\x02\x00", 1, BAD),
        (b"\xff\xff\xff\xff\xff\x01", 1, BAD),
        (b"\x80", 1, BAD),
        (record_of("00 00 00 7e 6b"), 1, BAD),
        (record_of("00 00 00 03 02 76 00"), 1, BAD),
        (record_of("00 00 00 01 03 00"), 1, BAD),
        (record_of("00 ff ff ff ff ff ff ff ff ff ff ff 00 00 01 01 00"), 1, BAD),
    ],
)
def test_bad_records_are_refused(
    select: Callable[..., object], data: bytes, count: int, message: str
) -> None:
    with pytest.raises(CorruptRecord) as caught:
        select(data, 0, count, 0, {}, (10, False), KEY_FORM)
    assert caught.value.message == message


def test_a_full_map_takes_newer_offsets_of_its_keys() -> None:
    builder = RecordBatchBuilder()
    for key in (b"a", b"a", b"b"):
        builder.append(0, key, b"value")
    data, offsets = bytes(builder.build()[HEADER_SIZE:]), {}
    assert index_keys(data, 0, 3, 5, offsets, (0, ENTRY_BYTES + 1, ENTRY_BYTES), KEY_FORM) == -1
    assert offsets == {b"a": 6}
