"""Records that others wrote are read, and what is written here others read alike.

`golden/records` holds files written by others:

- `java-v<magic>-<codec>-<create|append>.bin`: Kafka's Java `MemoryRecordsBuilder` (3.9.2), twelve records
  from offset 100 on with a hole; `java-down-…`: what its `MemoryRecords.downConvert` makes of them;
- `kcat-<codec>.log`: segments of Apache Kafka 4.3.1, batches written by librdkafka;
- `java-<codec>.log`: segments whose batches the broker compressed itself, or stamped (`append`);
- `txn.log`: a segment of two transactions, the first committed, the second aborted.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_append_time
from kcli.protocol.records.control_records import (
    ControlRecordType,
    EndTxnMarker,
    end_txn_batch,
    parse_end_txn_marker,
)
from kcli.protocol.records.conversion import down_convert, up_convert
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.records.record import Record, TimestampType
from tests.protocol.records.record_sets import LEGACY_CODECS

if TYPE_CHECKING:
    from kcli.protocol.records.message_set import LegacyEntry

with warnings.catch_warnings():
    # It loads its schemas in a way that Python 3.11 warns about.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

FILES = Path(__file__).parents[2] / "golden" / "records"
TIMESTAMP = 1_700_000_000_000
APPEND_TIME = TIMESTAMP + 99_000

JAVA_SETS = sorted(path.name for path in FILES.glob("java-v*.bin"))


def java_records(magic: int, *, append: bool) -> list[Record]:
    """The records in the files that `MemoryRecordsBuilder` wrote."""
    records = []
    for i in range(12):
        timestamp = APPEND_TIME if append else TIMESTAMP + 7 * i if magic else -1
        key = None if i % 3 == 0 else b"key-%d" % i
        value = None if i == 4 else b"value value value " * i
        headers = [("h", b"x"), ("n", None)] if magic == 2 and i == 5 else []
        records.append(Record(100 + i if i < 6 else 110 + i, timestamp, key, value, headers))
    return records


def parts_of(name: str) -> tuple[int, Codec, bool]:
    """Magic, codec and whether append time, from a file name."""
    magic, codec, timestamps = name.removeprefix("java-v").removesuffix(".bin").split("-")
    return int(magic), Codec[codec.upper()], timestamps == "append"


def build(magic: int, codec: Codec, *, append: bool) -> bytes:
    """The same set, written here."""
    timestamp_type = TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME
    if magic < 2:
        legacy = MessageSetBuilder(magic, codec=codec, base_offset=100, timestamp_type=timestamp_type)
        for record in java_records(magic, append=append):
            legacy.append(record.timestamp, record.key, record.value, offset=record.offset)
        return legacy.build()
    builder = RecordBatchBuilder(codec=codec, base_offset=100)
    for record in java_records(2, append=False):
        builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
    batch = builder.build()
    if append:
        set_append_time(batch, 0, APPEND_TIME)
    return bytes(batch)


def shape(entry: RecordBatch | LegacyEntry) -> tuple[object, ...]:
    """What readers see of an entry besides its records."""
    return (
        entry.magic,
        entry.base_offset,
        entry.last_offset,
        entry.codec,
        entry.timestamp_type,
        entry.max_timestamp,
        entry.count,
    )


@pytest.mark.parametrize("name", JAVA_SETS)
def test_sets_written_by_java_are_read_and_written_alike(name: str) -> None:
    magic, codec, append = parts_of(name)
    data = (FILES / name).read_bytes()
    entries = list(iter_batches(data))
    assert sum(entry.size_in_bytes for entry in entries) == len(data)
    assert all(entry.is_valid_crc() for entry in entries)
    records = [record for entry in entries for record in entry.records()]
    assert records == java_records(magic, append=append)

    ours = build(magic, codec, append=append)
    assert [shape(entry) for entry in iter_batches(ours)] == [shape(entry) for entry in entries]
    if codec in (Codec.NONE, Codec.LZ4):
        # The other compressors make other bytes of the same input from one version to the next.
        assert ours == data


@pytest.mark.parametrize("name", [name for name in JAVA_SETS if "-v2-" not in name and "-create" in name])
def test_message_sets_written_by_java_are_converted_up(name: str) -> None:
    magic, codec, _ = parts_of(name)
    batch = RecordBatch(up_convert((FILES / name).read_bytes()))
    assert batch.codec is codec
    expected = java_records(magic, append=False)
    for offset, record in enumerate(expected):
        record.offset = offset
        record.headers = ()
    assert list(batch.records()) == expected


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_are_converted_down_as_java_does(magic: int, codec: str) -> None:
    data = (FILES / f"java-v2-{codec}-create.bin").read_bytes()
    assert down_convert(data, magic) == (FILES / f"java-down-v{magic}-{codec}.bin").read_bytes()


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_batches_are_converted_down_from_the_offset_asked_for_as_java_does(magic: int) -> None:
    data = (FILES / "java-v2-none-create.bin").read_bytes()
    expected = (FILES / f"java-down-v{magic}-none-from-103.bin").read_bytes()
    assert down_convert(data, magic, first_offset=103) == expected


SEGMENTS = [
    *(f"kcat-{codec.name.lower()}.log" for codec in Codec),
    *(f"java-{codec.name.lower()}.log" for codec in Codec if codec is not Codec.NONE),
]


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_of_a_real_broker_are_read(name: str) -> None:
    data = (FILES / name).read_bytes()
    (batch,) = iter_batches(data)
    assert isinstance(batch, RecordBatch)
    assert batch.is_valid_crc()
    assert batch.codec is Codec[name.split("-")[1].removesuffix(".log").upper()]
    assert batch.size_in_bytes == len(data)
    headers = (("trace", b"1"), ("empty", None))
    assert [(r.offset, r.key, r.value, r.headers) for r in batch.records()] == [
        (i, b"key-%d" % i, b"value " * 6 + b"%d" % i, headers) for i in range(40)
    ]


def test_a_segment_stamped_by_a_real_broker_is_read() -> None:
    (batch,) = iter_batches((FILES / "java-append.log").read_bytes())
    assert batch.is_valid_crc()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch.records()} == {batch.max_timestamp}


def test_the_end_markers_of_a_real_broker_are_read_and_written_alike() -> None:
    batches = [b for b in iter_batches((FILES / "txn.log").read_bytes()) if isinstance(b, RecordBatch)]
    assert [(b.is_transactional, b.is_control, b.count) for b in batches] == [
        (True, False, 3),
        (True, True, 1),
        (True, False, 3),
        (True, True, 1),
    ]
    assert [record.sequence for record in batches[2].records()] == [3, 4, 5]
    for batch, control_type in (
        (batches[1], ControlRecordType.COMMIT),
        (batches[3], ControlRecordType.ABORT),
    ):
        (record,) = batch.records()
        marker = parse_end_txn_marker(record)
        assert marker == EndTxnMarker(control_type, 0)
        ours = end_txn_batch(
            marker,
            timestamp=record.timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_offset=batch.base_offset,
            leader_epoch=batch.partition_leader_epoch,
        )
        assert ours == batch.to_bytes()


# kafka-python, which writes and reads all three formats.

# kafka-python needs one more library for the lz4 frames of magic 0; Java's are in the files.
KAFKA_PYTHON_CASES = [
    *((0, codec) for codec in LEGACY_CODECS if codec is not Codec.LZ4),
    *((1, codec) for codec in LEGACY_CODECS),
    *((2, codec) for codec in Codec),
]


@pytest.mark.parametrize(("magic", "codec"), KAFKA_PYTHON_CASES)
def test_what_kafka_python_writes_is_read(magic: int, codec: Codec) -> None:
    builder = MemoryRecordsBuilder(magic, int(codec), 1_000_000, offset=7)
    given = [(TIMESTAMP + i, None if i == 3 else b"key", None if i == 5 else b"value" * i) for i in range(50)]
    for timestamp, key, value in given:
        builder.append(timestamp, key, value, *([[("h", b"x")]] if magic == 2 else []))
    builder.close()
    entries = list(iter_batches(builder.buffer()))
    assert all(entry.is_valid_crc() for entry in entries)
    assert {(entry.magic, entry.codec) for entry in entries} == {(magic, codec)}
    records = [record for entry in entries for record in entry.records()]
    assert [(record.key, record.value) for record in records] == [record[1:] for record in given]
    assert [record.timestamp for record in records] == [record[0] if magic else -1 for record in given]
    if magic < 2:
        assert [(r.key, r.value) for r in RecordBatch(up_convert(builder.buffer())).records()] == [
            record[1:] for record in given
        ]


@pytest.mark.parametrize(("magic", "codec"), KAFKA_PYTHON_CASES)
def test_what_is_written_here_kafka_python_reads(magic: int, codec: Codec) -> None:
    given = java_records(magic, append=False)
    found = []
    for batch in MemoryRecords(build(magic, codec, append=False)):
        assert batch.validate_crc()
        found += [
            Record(record.offset, record.timestamp if magic else -1, record.key, record.value, record.headers)
            for record in batch
        ]
    assert found == given
