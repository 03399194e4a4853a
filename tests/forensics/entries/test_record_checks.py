"""The records inside entries: sound ones of every codec, and each thing that can be wrong with them."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.forensics.entries.batch_run import MAX_ENTRY_BYTES
from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.record_checks import check_records
from kcli.forensics.entries.record_findings import MAX_FINDINGS
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import update_crc
from kcli.protocol.records.control_records import ControlRecordType, control_batch
from kcli.protocol.records.message_set import encode_entry
from kcli.protocol.records.varints import encode_varint
from tests.forensics.segment_makers import LEGACY_CODECS, Shape, make_entries, make_entry, shapes
from tests.support.hostile_records import batch as forged_batch

K = DamageKind
NOW = 1_760_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def check(path: Path, *entries: bytes, max_entry_bytes: int = MAX_ENTRY_BYTES) -> list[Damage]:
    """What is wrong with the records of a file whose entries have nothing else wrong."""
    path.write_bytes(b"".join(entries))
    found: list[Damage] = []
    for item in scan(str(path), max_entry_bytes=max_entry_bytes):
        assert isinstance(item, ScannedEntry)
        assert item.is_valid
        found += check_records(item)
    return found


def record(
    *,
    delta: int = 0,
    time: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[bytes | None, bytes | None], ...] = (),
    header_count: int | None = None,
    rest: bytes = b"",
) -> bytes:
    """A record as it is stored, right or wrong."""
    body = b"\0" + encode_varint(time) + encode_varint(delta) + blob(key) + blob(value)
    body += encode_varint(len(headers) if header_count is None else header_count)
    body += b"".join(blob(part) for header in headers for part in header) + rest
    return encode_varint(len(body)) + body


def blob(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def batch(*records: bytes, codec: Codec = Codec.NONE, **fields: int) -> bytes:
    """A batch with a checksum that fits."""
    defaults = {"count": len(records), "base_timestamp": NOW, "max_timestamp": NOW, "base_offset": 100}
    payload = compress(codec, b"".join(records))
    return forged_batch(payload, **{"codec": codec, **defaults, **fields})


def wrapper(
    magic: int, *entries: bytes, offset: int, timestamp: int = NOW, codec: Codec = Codec.GZIP
) -> bytes:
    return encode_entry(
        offset, magic, codec, timestamp, None, compress(codec, b"".join(entries), magic=magic)
    )


def inner(magic: int, offset: int, *, attributes: int = 0, timestamp: int = NOW) -> bytes:
    return encode_entry(offset, magic, attributes, timestamp, b"k", b"v")


# --- nothing wrong


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_every_codec_are_sound(path: Path, codec: Codec) -> None:
    assert check(path, *make_entries([Shape(codec=codec, records=50)] * 3)) == []


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_older_entries_of_every_codec_are_sound(path: Path, codec: Codec, magic: int) -> None:
    assert check(path, *make_entries([Shape(magic, codec, records=20)] * 3, 70)) == []


@given(shapes())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_sound_files_have_sound_records(path: Path, made: list[Shape]) -> None:
    assert check(path, *make_entries(made)) == []


SOUND = {
    "records that compaction took some from": batch(record(delta=2), record(delta=7), last_offset_delta=9),
    "a batch that compaction emptied": batch(last_offset_delta=9, codec=Codec.NONE),
    "append time, whatever the records say": batch(record(time=5), attributes=0x08, max_timestamp=NOW + 99),
    "headers": batch(record(headers=((b"caf\xc3\xa9", None), (b"", b"x"), (b"\xff\xfe", b"not UTF-8")))),
    "a name that is not UTF-8, checked in pieces": batch(
        record(headers=((b"\xff\xfe", b""),)), record(delta=2), last_offset_delta=2
    ),
    "no key, no value": batch(record(key=None, value=None)),
    "a wrapper of append time": encode_entry(
        3, 1, 9, NOW + 5, None, compress(Codec.GZIP, inner(1, 0) + inner(1, 1))
    ),
    "a compacted wrapper": wrapper(1, inner(1, 1), inner(1, 4), offset=20),
    "the end of a transaction": bytes(control_batch(ControlRecordType.COMMIT, bytes(6), timestamp=NOW)),
}


@pytest.mark.parametrize("case", SOUND)
def test_nothing_is_wrong_with(path: Path, case: str) -> None:
    assert check(path, SOUND[case]) == []


# --- something wrong


def reforged(entry: bytes) -> bytes:
    """A plain entry with a size and a checksum that fit."""
    rest = entry[16:]
    return entry[:8] + struct.pack(">iI", len(rest) + 4, zlib.crc32(rest)) + rest


WRONG: dict[str, tuple[bytes, DamageKind, str]] = {
    "fewer records than declared": (
        batch(record(), record(delta=1, value=bytes(20)), count=3),
        K.BAD_COUNT,
        "2 records in a batch that declares 3",
    ),
    "more records than declared": (
        batch(record(), record(delta=1), record(delta=2), count=2, last_offset_delta=2),
        K.BAD_COUNT,
        "3 records in a batch that declares 2",
    ),
    "records in a batch of none": (
        batch(record(), count=0, last_offset_delta=0),
        K.BAD_COUNT,
        "9 bytes of records in a batch of none",
    ),
    "offsets that stand still": (
        batch(record(), record(), count=2),
        K.BAD_OFFSET_DELTA,
        "record 1 of 2, byte 9 of the records: offset 100 comes after 100",
    ),
    "offsets beyond the last": (
        batch(record(), record(delta=5), last_offset_delta=3),
        K.BAD_OFFSET_DELTA,
        "record 1 of 2, byte 9 of the records: offset 105 is beyond the batch's last, 103",
    ),
    "offsets beyond the last, compressed": (
        batch(record(), record(delta=5), last_offset_delta=3, codec=Codec.ZSTD),
        K.BAD_OFFSET_DELTA,
        "record 1 of 2, byte 9 of the decompressed records: offset 105 is beyond the batch's last, 103",
    ),
    "a timestamp above the largest": (
        batch(record(time=7)),
        K.BAD_TIMESTAMP,
        f"the largest timestamp of the records is {NOW + 7}, the header says {NOW}",
    ),
    "a header without a name": (
        batch(record(headers=((None, b""),))),
        K.BAD_RECORD,
        "record 0 of 1, byte 0 of the records: header 0 has no name",
    ),
    "more headers than fit": (
        batch(record(header_count=99)),
        K.BAD_RECORD,
        "record 0 of 1, byte 0 of the records: 99 headers do not fit",
    ),
    "bytes behind the headers": (
        batch(record(rest=b"abc")),
        K.BAD_RECORD,
        "record 0 of 1, byte 0 of the records: 3 bytes behind its headers",
    ),
    "a record longer than the batch": (
        batch(record(), encode_varint(500) + b"abcdefghij", count=2),
        K.BAD_RECORD,
        "record 1 of 2, byte 9 of the records: 12 bytes are left of it",
    ),
    "a negative length": (
        batch(record(), encode_varint(-7) + b"abcdef", count=2),
        K.BAD_RECORD,
        "record 1 of 2, byte 9 of the records: a length of -7 bytes",
    ),
    "a control record without a type": (
        batch(record(key=b"ab"), attributes=0x20),
        K.BAD_RECORD,
        "record 0 of 1, byte 0 of the records: the key of a control record is too short",
    ),
    "bytes that are not gzip": (
        forged_batch(b"not gzip", codec=1, base_offset=100),
        K.UNDECODABLE_RECORDS,
        "damaged gzip data: Error -3 while decompressing data: incorrect header check",
    ),
    "gzip that ends too early": (
        forged_batch(compress(Codec.GZIP, record())[:-9], codec=1, base_offset=100),
        K.UNDECODABLE_RECORDS,
        "damaged gzip data: it ends too early",
    ),
    "a plain entry whose value is too long": (
        reforged(inner(1, 0)[:-1]),
        K.BAD_RECORD,
        "a value of 1 bytes does not fit: 0 are left",
    ),
    "a plain entry whose key is too long": (
        reforged(inner(0, 0)[:18] + struct.pack(">i", 99) + inner(0, 0)[22:]),
        K.BAD_RECORD,
        "a key of 99 bytes does not fit: 6 are left",
    ),
    "inner entries of another magic": (
        wrapper(1, inner(0, 0), offset=0),
        K.BAD_RECORD,
        "entry 0 inside the wrapper: magic 0 inside magic 1",
    ),
    "a wrapper inside a wrapper": (
        wrapper(1, inner(1, 0, attributes=1), offset=0),
        K.BAD_RECORD,
        "entry 0 inside the wrapper: a wrapper inside a wrapper",
    ),
    "inner offsets that go back": (
        wrapper(1, inner(1, 1), inner(1, 0), offset=30),
        K.BAD_OFFSET_DELTA,
        "entry 1 inside the wrapper: offset 0 comes after 1",
    ),
    "a last inner offset that is not the wrapper's": (
        wrapper(0, inner(0, 5), inner(0, 6), offset=7),
        K.BAD_OFFSET_DELTA,
        "offset 6 of the last entry inside is not that of its wrapper, 7",
    ),
    "more inner offsets than there can be": (
        wrapper(1, inner(1, 0), inner(1, 9), offset=7),
        K.BAD_OFFSET_DELTA,
        "offset 9 of the last entry inside counts more than there are before that of its wrapper, 7",
    ),
    "an inner timestamp above the wrapper's": (
        wrapper(1, inner(1, 0, timestamp=NOW + 3), offset=0),
        K.BAD_TIMESTAMP,
        f"the largest timestamp of the records is {NOW + 3}, the header says {NOW}",
    ),
    "an inner entry that is cut": (
        wrapper(1, inner(1, 0), inner(1, 1)[:-1], offset=1),
        K.BAD_RECORD,
        "entry 1 inside the wrapper: 35 bytes are left of it",
    ),
    "an inner size that cannot be": (
        wrapper(1, inner(1, 0), bytes(30), offset=1),
        K.BAD_RECORD,
        "entry 1 inside the wrapper: a size of 0 is too small",
    ),
    "a wrapper without entries": (
        wrapper(1, offset=1),
        K.BAD_COUNT,
        "a wrapper without entries",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_it_is_told_that_there_are(path: Path, case: str) -> None:
    data, kind, message = WRONG[case]
    assert [(damage.kind, damage.message) for damage in check(path, data)] == [(kind, message)]


def test_an_inner_entry_has_a_checksum_of_its_own(path: Path) -> None:
    second = bytearray(inner(1, 1))
    second[-1] ^= 1
    (damage,) = check(path, wrapper(1, inner(1, 0), bytes(second), offset=8))
    assert (damage.kind, damage.offset) == (K.BAD_RECORD_CRC, 8)
    assert damage.expected == zlib.crc32(inner(1, 1)[16:])
    assert damage.found == zlib.crc32(second[16:])


def test_the_bytes_of_a_bad_record_are_named(path: Path) -> None:
    good = make_entry(Shape(), 0)
    bad = record(rest=b"abc")
    (damage,) = check(path, good, batch(record(), bad, last_offset_delta=1, base_offset=3))
    assert damage.field is not None
    assert (damage.position, damage.offset) == (len(good), 4)
    assert damage.field.position == len(good) + 61 + len(record())
    assert damage.field.raw == bad


def test_all_bad_records_are_told_up_to_a_limit(path: Path) -> None:
    bad = [record(delta=number, rest=b"!") for number in range(100)]
    assert len(check(path, batch(*bad[:5]))) == 5
    assert len(check(path, batch(*bad))) == MAX_FINDINGS


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_too_large_to_be_kept_is_checked_in_pieces(path: Path, codec: Codec) -> None:
    entries = make_entries([Shape(codec=codec, records=3000, value_bytes=400)])
    assert check(path, *entries, max_entry_bytes=1000) == []
    broken = batch(*[record(delta=n, value=bytes(400)) for n in range(2999)], count=3000, codec=codec)
    (damage,) = check(path, broken, max_entry_bytes=1000)
    assert (damage.kind, damage.expected, damage.found) == (K.BAD_COUNT, 2999, 3000)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_an_older_entry_too_large_to_be_kept_is_checked_in_pieces(path: Path, codec: Codec) -> None:
    entries = make_entries([Shape(1, codec, records=3000, value_bytes=400)])
    assert check(path, *entries, max_entry_bytes=1000) == []


MEGABYTE = 1024 * 1024


def _bomb(codec: Codec) -> bytes:
    """A small batch of records of 100 MB."""
    return batch(*[record(delta=n, value=bytes(MEGABYTE)) for n in range(100)], codec=codec)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_memory_does_not_depend_on_what_records_decompress_to(path: Path, codec: Codec) -> None:
    path.write_bytes(_bomb(codec))
    program = (
        "import sys\n"
        "from kcli.forensics.entries.segment_scan import scan\n"
        "from kcli.forensics.entries.record_checks import check_records\n"
        "for entry in scan(sys.argv[1]):\n"
        "    for damage in check_records(entry):\n"
        "        print(damage.kind.value)\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=60
    )
    *kinds, peak = run.stdout.split()
    assert kinds == (["unchecked_records"] if codec is Codec.ZSTD else [])
    assert int(peak) < 60 * 1024


@given(shapes(1, 1), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_records_of_any_bytes_are_told_and_never_raise(
    path: Path, made: list[Shape], data: st.DataObject
) -> None:
    entry = bytearray(make_entries(made)[0])
    header = (18, 26, 61)[entry[16]]
    at = data.draw(st.integers(header, len(entry) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=20))
    entry[at : at + len(noise)] = noise
    struct.pack_into(">i", entry, 8, len(entry) - 12)
    if entry[16] == 2:
        update_crc(entry, 0)
    else:
        struct.pack_into(">I", entry, 12, zlib.crc32(entry[16:]))
    path.write_bytes(entry)
    for item in scan(str(path)):
        if isinstance(item, ScannedEntry):
            assert item.is_valid
            assert all(damage.position == 0 for damage in check_records(item))
            assert is_readable(item) or check_records(item)


def is_readable(entry: ScannedEntry) -> bool:
    """Whether a consumer could read the records."""
    try:
        list(entry.load().records())
    except CorruptRecord:
        return False
    return True
