"""Producer snapshots, byte for byte, and the files that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.storage.producer_snapshot import (
    CorruptSnapshot,
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from kcli.storage.producer_state import BatchMetadata, ProducerStateEntry

APACHE = Path(__file__).parent.parent / "golden" / "storage" / "apache-4.3.1" / "golden-topic-0"


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


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1),
            st.integers(0, 2**15 - 1),
            st.integers(-1, 2**31 - 1),
            st.integers(-1, 2**63 - 1),
            st.none()
            | st.tuples(
                st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 1000), st.integers(0, 2**62)
            ),
        ),
        max_size=5,
        unique_by=lambda row: row[0],
    )
)
def test_what_is_written_is_read(
    rows: list[tuple[int, int, int, int, tuple[int, int, int, int] | None]],
) -> None:
    entries = []
    for producer_id, epoch, coordinator_epoch, txn_offset, batch in sorted(rows):
        timestamp = batch[3] if batch else 55
        made = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_offset)
        if batch is not None:
            made.batches.append(BatchMetadata(*batch))
        entries.append(made)
    assert repr(decode_snapshot(encode_snapshot(entries))) == repr(entries)


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
