"""Producer snapshots, byte for byte, and the files that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.storage.producers.producer_entry import BatchMetadata, ProducerStateEntry
from kcli.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    ProducerSnapshots,
    decode_rows,
    decode_snapshot,
    encode_snapshot,
)

APACHE = Path(__file__).parents[2] / "golden" / "storage" / "apache-4.3.1" / "golden-topic-0"


def entry(producer_id: int = 7, epoch: int = 2, *, batch: BatchMetadata | None = None) -> ProducerStateEntry:
    made = ProducerStateEntry(producer_id, epoch, 3, 1000, -1)
    if batch is not None:
        made.batches.append(batch)
    return made


@pytest.mark.parametrize("path", sorted(APACHE.glob("*.snapshot")), ids=lambda path: path.name)
def test_snapshots_of_apache_kafka_are_read_and_written_alike(path: Path) -> None:
    entries = decode_snapshot(path.read_bytes())
    assert entries
    assert encode_snapshot(entries) == path.read_bytes()


def test_a_snapshot_without_producers_has_ten_bytes() -> None:
    data = encode_snapshot([])
    assert len(data) == 10
    assert decode_snapshot(data) == []


BATCHES = st.builds(
    BatchMetadata,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(0, 1000),
    st.integers(0, 2**62),
)


@given(
    st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.tuples(
            st.integers(0, 2**15 - 1),
            st.integers(-1, 2**31 - 1),
            st.integers(-1, 2**63 - 1),
            st.lists(BATCHES, max_size=5, unique_by=lambda batch: batch.last_offset),
        ),
        max_size=5,
    )
)
def test_what_is_written_is_read(producers: dict[int, tuple[int, int, int, list[BatchMetadata]]]) -> None:
    entries = []
    for producer_id, (epoch, coordinator_epoch, txn_offset, batches) in sorted(producers.items()):
        batches.sort(key=lambda batch: batch.last_offset)
        timestamp = batches[-1].timestamp if batches else 55
        made = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_offset)
        made.batches.extend(batches)
        entries.append(made)
    assert repr(decode_snapshot(encode_snapshot(entries))) == repr(entries)


def test_every_batch_has_its_row_and_the_last_is_all_that_kafka_keeps() -> None:
    batches = [BatchMetadata(5, 10, 2, 1000), BatchMetadata(6, 11, 0, 1001)]
    written = entry()
    written.batches.extend(batches)
    written.last_timestamp = 1001
    rows = decode_rows(encode_snapshot([written, entry(8)]))
    assert [(row.producer_id, list(row.batches), row.last_timestamp) for row in rows] == [
        (7, batches[:1], 1000),
        (7, batches[1:], 1001),
        (8, [], 1000),
    ]


@pytest.mark.parametrize(
    ("later", "offsets"),
    [
        pytest.param(entry(7, 2, batch=BatchMetadata(6, 11, 0, 1000)), [10, 11], id="the next batch"),
        pytest.param(entry(7, 2, batch=BatchMetadata(4, 9, 0, 1000)), [9], id="an earlier batch"),
        pytest.param(entry(7, 3, batch=BatchMetadata(0, 11, 0, 1000)), [11], id="another epoch"),
    ],
)
def test_a_later_row_goes_on_or_replaces(later: ProducerStateEntry, offsets: list[int]) -> None:
    data = encode_snapshot([entry(batch=BatchMetadata(5, 10, 2, 1000)), later])
    (read,) = decode_snapshot(data)
    assert [batch.last_offset for batch in read.batches] == offsets


def test_of_more_rows_than_batches_are_retained_the_newest_count() -> None:
    data = encode_snapshot([entry(batch=BatchMetadata(n, n, 0, 1000)) for n in range(7)])
    (read,) = decode_snapshot(data)
    assert [batch.last_offset for batch in read.batches] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("position", range(10 + 46))
def test_every_flipped_byte_is_noticed(position: int) -> None:
    data = bytearray(encode_snapshot([entry(batch=BatchMetadata(5, 10, 2, 1000))]))
    data[position] ^= 0x01
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(data))


@pytest.mark.parametrize("size", [0, 1, 9, 55])
def test_a_cut_snapshot_is_noticed(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(encode_snapshot([entry()])[:size])


def snapshots(directory: Path, *offsets: int) -> ProducerSnapshots:
    files = ProducerSnapshots(str(directory))
    for offset in offsets:
        files.write(offset, [entry(epoch=offset)])
    return files


def names(directory: Path) -> list[str]:
    return sorted(path.name.lstrip("0") for path in directory.iterdir())


def test_snapshots_are_found_on_disk(tmp_path: Path) -> None:
    snapshots(tmp_path, 10, 20)
    files = ProducerSnapshots(str(tmp_path))
    assert files.latest is None
    files.find()
    assert files.offsets == {10, 20}
    assert files.latest == 20
    assert files.read(20)[0].producer_epoch == 20


def test_snapshots_out_of_range_go(tmp_path: Path) -> None:
    files = snapshots(tmp_path, 10, 20, 30, 40)
    files.remove_if(below=20, above=30)
    assert names(tmp_path) == ["20.snapshot", "30.snapshot"]


@pytest.mark.parametrize(
    ("offsets", "bases", "left"),
    [
        ((10, 20, 30), (10, 20), (10, 20, 30)),
        ((10, 15, 20, 30, 35), (10, 20), (10, 20, 35)),
        ((10, 15), (10, 20), (10,)),
        ((10, 15), (), (15,)),
    ],
)
def test_strays_go_but_not_the_one_of_a_clean_stop(
    tmp_path: Path, offsets: tuple[int, ...], bases: tuple[int, ...], left: tuple[int, ...]
) -> None:
    files = snapshots(tmp_path, *offsets)
    files.remove_strays(bases)
    assert files.offsets == set(left)
    assert names(tmp_path) == [f"{offset}.snapshot" for offset in left]


def test_a_snapshot_marked_deleted_is_one_no_more(tmp_path: Path) -> None:
    files = snapshots(tmp_path, 10)
    assert files.mark_deleted(10) == files.path(10) + ".deleted"
    assert files.mark_deleted(10) is None
    assert names(tmp_path) == ["10.snapshot.deleted"]
