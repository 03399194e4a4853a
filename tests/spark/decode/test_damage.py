"""Damage: what is refused, what is left out, and that the offsets which are missing are the right ones."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER_SIZE, update_crc
from kcli.protocol.records.message_set import MessageSetBuilder, encode_entry
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.decode.gatherer import Gatherer
from kcli.spark.split import OnCorrupt, ReadCounters, Reading

Letter = tuple[str, int, int, bytes, str]


def batch(base_offset: int, count: int = 2, **options: Any) -> bytearray:
    builder = RecordBatchBuilder(base_offset=base_offset, **options)
    for offset in range(base_offset, base_offset + count):
        builder.append(5, None, b"%d" % offset)
    return builder.build()


def flipped(data: bytearray, at: int, *, is_signed: bool = False) -> bytearray:
    """Return the batch with a bit changed, its checksum made right again if it `is_signed`."""
    changed = bytearray(data)
    changed[at] ^= 0x10
    if is_signed:
        update_crc(changed, 0)
    return changed


class Read:
    """What reading entries one after the other gives, damage passed over by where they really end."""

    def __init__(
        self, *entries: bytes, start: int = 0, end: int = 100, policy: str = "skip", **options: Any
    ) -> None:
        self.letters: list[Letter] = []
        self.counters = ReadCounters(on_damaged_batch=lambda *letter: self.letters.append(letter))
        reading = Reading(columns=("offset",), on_corrupt=OnCorrupt(policy), max_batch_bytes=1 << 20)
        one = Gatherer("t", 0, start, end, reading, self.counters)
        data = b"".join(entries)
        edges = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
        self.offsets: list[int] = []
        at = 0
        while at < len(data) and not one.is_done:
            try:
                for rows in one.rows(data, at, is_end=True, **options):
                    self.offsets += rows.column(0).to_pylist()
                if one.is_done or one.stopped_at == len(data):
                    break
                raise CorruptBatch("t-0", one.stopped_at, "the data ends inside it")
            except CorruptBatch as damage:
                behind = next(edge for edge in edges if edge > damage.position)
                one.skip_damaged(damage, behind - damage.position, data[damage.position : behind])
                at = behind
        one.finish()

    @property
    def missing(self) -> list[tuple[int, int]]:
        return [tuple(interval) for interval in self.counters.missing]


POSITIONS = {"base offset": 3, "size": 9, "magic": 16, "checksum": 18, "count": 58, "records": HEADER_SIZE}


@pytest.mark.parametrize("field", POSITIONS)
@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_damaged_batch_is_passed_over_and_its_offsets_are_missing(field: str, policy: str) -> None:
    bad = flipped(batch(2), POSITIONS[field])
    read = Read(batch(0), bad, batch(4), end=6, policy=policy)
    assert (read.offsets, read.missing) == ([0, 1, 4, 5], [(2, 4)])
    assert (read.counters.corrupt_batches, read.counters.corrupt_bytes) == (1, len(bad))
    letters = [("t", 0, len(batch(0)), bytes(bad))] if policy == "dead-letter" else []
    assert [letter[:4] for letter in read.letters] == letters


@pytest.mark.parametrize("field", POSITIONS)
def test_a_damaged_batch_fails_the_reading(field: str) -> None:
    with pytest.raises(CorruptBatch, match=f"position {len(batch(0))}"):
        Read(batch(0), flipped(batch(2), POSITIONS[field]), batch(4), policy="fail")


def test_the_leader_epoch_means_nothing_to_a_reader() -> None:
    assert Read(batch(0), flipped(batch(2), 14), policy="fail").offsets == [0, 1, 2, 3]


def test_damage_up_to_the_end_takes_all_that_was_wanted() -> None:
    read = Read(batch(0), flipped(batch(2), 30), start=1, end=50)
    assert (read.offsets, read.missing) == ([1], [(2, 50)])


def test_damaged_batches_in_a_row_leave_one_hole() -> None:
    read = Read(batch(0), flipped(batch(2), 30), flipped(batch(4), 16), batch(6), end=8)
    assert (read.offsets, read.missing, read.counters.corrupt_batches) == ([0, 1, 6, 7], [(2, 6)], 2)


@pytest.mark.parametrize("policy", list(OnCorrupt))
def test_damage_in_front_of_the_range_is_nobodys_loss(policy: str) -> None:
    read = Read(flipped(batch(0), 30), batch(2), start=2, end=4, policy=policy)
    assert (read.offsets, read.missing, read.counters.corrupt_batches) == ([2, 3], [], 0)
    assert read.letters == []


def test_damage_at_the_beginning_counts_if_it_takes_a_part_of_the_range() -> None:
    read = Read(flipped(batch(0), 30), batch(2), start=1, end=4)
    assert (read.offsets, read.missing, read.counters.corrupt_batches) == ([2, 3], [(1, 2)], 1)
    with pytest.raises(CorruptBatch):
        Read(flipped(batch(0), 30), batch(2), start=1, end=4, policy="fail")


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_are_not_what_a_good_header_says_take_their_batch_with_them(codec: Codec) -> None:
    bad = batch(2, 30, codec=codec)
    bad[60] ^= 0x08  # the number of records
    update_crc(bad, 0)
    for policy in ("skip", "dead-letter"):
        read = Read(batch(0), bad, batch(32), end=34, policy=policy)
        assert (read.offsets, read.missing) == ([0, 1, 32, 33], [(2, 32)])
        assert (read.counters.corrupt_batches, read.counters.corrupt_bytes) == (1, len(bad))
        assert [letter[3] for letter in read.letters] == [bytes(bad)] * (policy == "dead-letter")
    with pytest.raises(CorruptBatch, match="offsets 2 to 31"):
        Read(batch(0), bad, batch(32), policy="fail")


def test_every_bad_batch_of_a_chunk_is_left_out() -> None:
    # Some are found by where their records end, some by their fields, and some by their offsets.
    changes = {3: 60, 50: HEADER_SIZE, 51: HEADER_SIZE + 1, 90: HEADER_SIZE + 3, 99: HEADER_SIZE + 4}
    entries = [batch(2 * number) for number in range(120)]
    for number, at in changes.items():
        entries[number] = flipped(entries[number], at, is_signed=True)
    lost = [number for number in changes if number != 51]  # the attributes of a record mean nothing
    read = Read(*entries, end=240)
    assert sorted(read.missing) == [(2 * number, 2 * number + 2) for number in lost]
    assert read.offsets == [offset for offset in range(240) if offset // 2 not in lost]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_what_cannot_be_decompressed_is_left_out(codec: Codec) -> None:
    bad = [batch(number, codec=Codec.ZSTD) for number in (2, 6, 8)]
    for one in bad:
        one[HEADER_SIZE + 6] ^= 0xFF
        update_crc(one, 0)
    good = [batch(number, codec=codec) for number in (0, 4, 10)]
    read = Read(good[0], bad[0], good[1], *bad[1:], good[2], end=12)
    assert (read.offsets, read.missing) == ([0, 1, 4, 5, 10, 11], [(2, 4), (6, 8), (8, 10)])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_decompresses_to_more_than_is_allowed_is_left_out(codec: Codec) -> None:
    builder = RecordBatchBuilder(base_offset=2, codec=codec)
    builder.append(0, None, bytes(2 << 20))
    read = Read(batch(0), builder.build(), batch(3), end=5)
    assert (read.offsets, read.missing) == ([0, 1, 3, 4], [(2, 3)])


def test_holes_that_compaction_left_are_no_damage() -> None:
    read = Read(batch(0), batch(50), batch(70), policy="fail", limit_offset=72)
    assert read.offsets == [0, 1, 50, 51, 70, 71]


def test_a_hole_is_believed_when_what_follows_it_has_been_seen() -> None:
    data = bytes(batch(0) + batch(50))
    one = Gatherer("t", 0, 0, 100, Reading(columns=("offset",)), ReadCounters())
    one.next_offset = 0
    (rows,) = one.rows(data)
    assert rows.column(0).to_pylist() == [0, 1]
    assert (one.stopped_at, one.needed > len(data) - one.stopped_at) == (len(batch(0)), True)
    with pytest.raises(CorruptBatch, match="before 40"):
        list(one.rows(data + batch(40), one.stopped_at))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((batch(8), batch(10), batch(4)), "offset 4 after 11"),
        ((batch(8), batch(10), batch(11)), "offset 11 after 11"),
        ((batch(0), batch(50)), "belongs to the next segment"),
    ],
)
def test_offsets_that_cannot_be_are_damage(entries: tuple[bytes, ...], reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        Read(*entries, policy="fail", limit_offset=51)


@pytest.mark.parametrize("magic", [0, 1])
def test_damaged_older_entries_are_passed_over(magic: int) -> None:
    plain = [encode_entry(offset, magic, 0, 5, b"k", b"v") for offset in range(4)]
    bad = bytearray(plain[2])
    bad[-1] ^= 1
    read = Read(*plain[:2], bytes(bad), plain[3], end=4)
    assert (read.offsets, read.missing, read.counters.corrupt_batches) == ([0, 1, 3], [(2, 3)], 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_wrapper_with_a_damaged_record_inside_is_left_out_whole(magic: int) -> None:
    inner = [bytearray(encode_entry(at if magic else at + 2, magic, 0, 5, b"k", b"v")) for at in range(3)]
    inner[1][-1] ^= 1
    value = compress(Codec.LZ4, b"".join(inner), magic=magic)
    wrapper = encode_entry(4, magic, Codec.LZ4, 5, None, value)
    following = MessageSetBuilder(magic, codec=Codec.GZIP, base_offset=5)
    following.append(5, None, b"v")
    read = Read(batch(0), wrapper, following.build(), end=6)
    assert (read.offsets, read.missing) == ([0, 1, 5], [(2, 5)])


def test_damage_in_front_of_an_older_wrapper_ends_at_its_first_record() -> None:
    builder = MessageSetBuilder(1, codec=Codec.GZIP, base_offset=4)
    for _ in range(3):
        builder.append(5, None, b"v")
    read = Read(batch(0), flipped(batch(2), 30), builder.build(), end=7)
    assert (read.offsets, read.missing) == ([0, 1, 4, 5, 6], [(2, 4)])
