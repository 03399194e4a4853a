"""Walking records agrees with parsing them, compiled or not, whatever the bytes."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records import record_walk
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.protocol.records.record_walk import walk_records, walk_records_in_python
from kcli.protocol.records.varints import encode_varint
from tests.support.toolchain import need

Walk = Callable[[bytes | bytearray | memoryview, int, int, int], tuple[int, int, bool, bool]]
Records = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]

FUZZ_SOURCE = Path(__file__).with_name("record_walk_fuzz.c")
WALK_SOURCES = Path(record_walk.__file__).parent
WALKS = pytest.mark.parametrize("walk", [walk_records, walk_records_in_python], ids=["chosen", "Python"])
OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(
        st.integers(-1, 2**62) | st.integers(0, 200),
        OPTIONAL_BYTES,
        OPTIONAL_BYTES,
        st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def build(records: Records) -> bytearray:
    builder = RecordBatchBuilder()
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()


def outcome(walk: Walk, data: bytes | bytearray | memoryview, count: int, base_timestamp: int) -> object:
    try:
        return walk(data, 0, count, base_timestamp)
    except CorruptRecord as error:
        return error.message


def test_it_is_compiled_where_a_compiler_is() -> None:
    need("cc")
    assert record_walk.RECORD_WALK == "compiled", "`pip install -e .` builds the extension module"


@WALKS
@given(RECORDS)
def test_a_walk_sees_what_parsing_sees(walk: Walk, records: Records) -> None:
    batch = RecordBatch(build(records))
    smallest, largest, dense, keyed = walk(batch.buffer, HEADER_SIZE, batch.count, batch.base_timestamp)
    timestamps = [record.timestamp for record in batch.records()]
    assert smallest == min(timestamps)
    assert largest == max(timestamps)
    assert dense
    assert keyed == all(record.key is not None for record in batch.records())


@WALKS
@given(RECORDS, st.data())
def test_damage_is_seen_by_both_or_neither(walk: Walk, records: Records, data: st.DataObject) -> None:
    raw = build(records)
    position = data.draw(st.integers(HEADER_SIZE, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    batch = RecordBatch(raw)
    try:
        list(batch.records())
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            walk(raw, HEADER_SIZE, batch.count, 0)
    else:
        walk(raw, HEADER_SIZE, batch.count, 0)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return the bytes of records, changed, cut or lengthened here and there, and their count."""
    records = draw(RECORDS)
    data = build(records)[HEADER_SIZE:]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 3))
        data[at : at + size] = draw(st.binary(max_size=11) | st.sampled_from([b"\xff" * 5, b"\x80" * 10]))
    return bytes(data), len(records) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))


BASES = st.sampled_from([0, 1_760_000_000_000, -1, 2**63 - 1, -(2**63)])


@settings(max_examples=600)
@given(mutated(), BASES)
def test_both_walks_return_the_same(case: tuple[bytes, int], base_timestamp: int) -> None:
    data, count = case
    assert outcome(walk_records, data, count, base_timestamp) == outcome(
        walk_records_in_python, data, count, base_timestamp
    )


@given(st.binary(max_size=40), st.integers(-1, 4), BASES)
def test_both_walks_return_the_same_of_any_bytes(data: bytes, count: int, base_timestamp: int) -> None:
    assert outcome(walk_records, data, count, base_timestamp) == outcome(
        walk_records_in_python, data, count, base_timestamp
    )


def record_of(body: str) -> bytes:
    data = bytes.fromhex(body)
    return encode_varint(len(data)) + data


SOUND = record_of("00 00 00 02 6b 02 76 00")
FIELDS = "record 0: its fields do not fill its length"


@WALKS
@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (SOUND, 0, "a record batch cannot hold 0 records"),
        (SOUND, -1, "a record batch cannot hold -1 records"),
        (SOUND, 2, "a record batch holds fewer records than it declares"),
        (SOUND, 2**31 - 1, "a record batch holds fewer records than it declares"),
        (SOUND + b"\0", 1, "a record batch holds more than the records it declares"),
        (SOUND + SOUND[:-1], 2, "record 1: 8 bytes do not fit its batch"),
        (b"\x01", 1, "record 0: -1 bytes do not fit its batch"),
        (b"\xfe\xff\xff\xff\x0f", 1, "record 0: 2147483647 bytes do not fit its batch"),
        (b"\xff\xff\xff\xff\xff\x01", 1, FIELDS),
        (b"\x80", 1, FIELDS),
        (b"\x00", 1, FIELDS),
        (record_of("00 00 00 7e 6b"), 1, FIELDS),
        (record_of("00 00 00 03 02 76 00"), 1, FIELDS),
        (record_of("00 00 00 01 03 00"), 1, FIELDS),
        (record_of("00 00 00 01 01 00 00"), 1, FIELDS),
        (record_of("00 00 00 01 01 01"), 1, FIELDS),
        (record_of("00 00 00 01 01 fe ff ff ff 0f"), 1, FIELDS),
        (record_of("00 00 00 01 01 02 01 01"), 1, FIELDS),
        (record_of("00 00 00 01 01 02 02 61 03"), 1, FIELDS),
        (record_of("00 00 00 01 01 02 02 61 08 62"), 1, FIELDS),
        # The first value claims bytes of its neighbour.
        (encode_varint(6) + bytes.fromhex("00 00 00 01 08 76") + SOUND, 2, FIELDS),
    ],
)
def test_what_contradicts_the_format_is_named(walk: Walk, data: bytes, count: int, message: str) -> None:
    assert outcome(walk, data, count, 0) == message


@WALKS
def test_a_header_name_may_be_any_bytes(walk: Walk) -> None:
    assert walk(record_of("00 00 00 01 01 02 02 ff 01"), 0, 1, 5) == (5, 5, True, False)


@WALKS
def test_holes_between_offsets_are_noticed(walk: Walk) -> None:
    builder = RecordBatchBuilder()
    builder.append(1, b"k", b"v")
    builder.append(1, b"k", b"v", offset=2)
    assert walk(builder.build(), HEADER_SIZE, 2, 1) == (1, 1, False, True)


@WALKS
def test_sums_of_timestamps_wrap(walk: Walk) -> None:
    delta_one = record_of("00 02 02 01 01 00")
    assert walk(record_of("00 00 00 01 01 00") + delta_one, 0, 2, 2**63 - 1) == (
        -(2**63),
        2**63 - 1,
        True,
        False,
    )


@WALKS
@pytest.mark.parametrize("position", [-1, len(SOUND) + 1])
def test_a_start_outside_of_the_data_is_a_mistake(walk: Walk, position: int) -> None:
    with pytest.raises(ValueError, match="byte"):
        walk(SOUND, position, 1, 0)


@WALKS
@pytest.mark.parametrize("size", [20, 200_000])
def test_any_view_of_bytes_is_read_in_place(walk: Walk, size: int) -> None:
    batch = build([(7, None, b"v" * size, [])])
    scratch = memoryview(bytearray(b"\xff" * 10) + batch + b"\xff" * 10)
    assert walk(scratch[10 : 10 + len(batch)], HEADER_SIZE, 1, 7) == (7, 7, True, False)
    assert walk(bytes(batch), HEADER_SIZE, 1, 7) == (7, 7, True, False)


def test_threads_walk_over_large_batches_side_by_side() -> None:
    random_records = [(number, b"k", random.Random(number).randbytes(100), []) for number in range(5000)]
    batch = build(random_records)
    found: list[object] = []

    def walk() -> None:
        found.extend(walk_records(batch, HEADER_SIZE, 5000, 0) for _ in range(20))

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(0, 4999, True, True)] * 80


# --- the C source under a sanitizer


def test_hostile_bytes_under_a_sanitizer(tmp_path: Path) -> None:
    """`record_walk_fuzz.c` tells what it does, and how to run it for longer."""
    need("cc")
    program = tmp_path / "fuzz"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["cc", *flags, f"-I{WALK_SOURCES}", FUZZ_SOURCE, "-o", program], check=True)
    done = subprocess.run([program, "30000", "1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    sound, refused = map(int, done.stdout.split())
    assert sound + refused == 30_000
    assert min(sound, refused) > 5_000
