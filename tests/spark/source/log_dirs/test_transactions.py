"""Transactions in log directories against a model: random producers, commits, aborts, and what stays open."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.records.control_records import ControlRecordType
from kcli.spark.source.log_dirs.segment import list_segments
from kcli.spark.source.log_dirs.transactions import derived_aborted, last_stable_offset
from kcli.storage.log.log_config import LogConfig
from tests.spark.source.log_dirs.log_dir import LogDir, between, read_all, stored_rows

if TYPE_CHECKING:
    from pathlib import Path

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=200)
NEVER = 2**63 - 1
Step = tuple[str, int, int]
"""What, which producer, how many records."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "plain", "commit", "abort"]),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=60,
)


@dataclass
class Model:
    """What a reader may see: what was rolled back, and from where to where transactions are open."""

    transactions: list[list[int]] = field(default_factory=list)
    """Where each begins, and its marker; `NEVER` without one."""
    open: dict[int, list[int]] = field(default_factory=dict)
    """The transaction and the offsets of each producer that has one open."""
    aborted: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)

    def stable(self, mark: int) -> int:
        """The last stable offset under a high watermark."""
        return min((first for first, marker in self.transactions if first < mark <= marker), default=mark)


def play(log: LogDir, steps: list[Step]) -> Model:
    """Do the steps; producer 4 writes in no transaction."""
    model = Model()
    for what, producer, count in steps:
        if what == "plain":
            log.append(*[b"plain"] * count)
        elif what == "write":
            sequence = model.sequences.get(producer, 0)
            values = [b"%d" % producer] * count
            first = log.write(producer, *values, sequence=sequence, transactional=producer != 4)
            model.sequences[producer] = sequence + count
            if producer != 4:
                if producer not in model.open:
                    model.transactions.append([first, NEVER])
                    model.open[producer] = [len(model.transactions) - 1]
                model.open[producer].extend(range(first, first + count))
        elif producer in model.open:
            number, *offsets = model.open.pop(producer)
            model.transactions[number][1] = log.end(producer, ABORT if what == "abort" else COMMIT)
            if what == "abort":
                model.aborted.update(offsets)
    return model


def remove(log: LogDir, *suffixes: str) -> None:
    for suffix in suffixes:
        for name in log.names(suffix):
            (log.directory / name).unlink()


LOST = [(), (".txnindex",), (".snapshot",), (".txnindex", ".snapshot"), (".txnindex", ".index", ".snapshot")]


@pytest.mark.parametrize("lost", LOST, ids=lambda suffixes: "".join(suffixes) or "nothing")
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, data=st.data())
def test_rows_that_were_rolled_back_or_not_yet_committed_are_not_read(
    tmp_path_factory: pytest.TempPathFactory, lost: tuple[str, ...], steps: list[Step], data: st.DataObject
) -> None:
    log = LogDir(tmp_path_factory.mktemp("logs") / "node", CONFIG)
    model = play(log, steps)
    log.close()
    remove(log, *lost)
    end = log.log.log_end_offset
    mark = data.draw(st.integers(0, end), label="high watermark")
    log.write_mark(mark)
    stable = log.ends()[2]
    assert stable == model.stable(mark)
    rows = [row for row in stored_rows(log.directory) if row[0] not in model.aborted]
    size = data.draw(st.sampled_from([1, 300, 2**40]), label="split bytes")
    for split in log.splits(0, stable, read_committed=True, split_bytes=size):
        assert read_all([split], read_committed=True) == between(rows, split.start, split.end)
        assert read_all([split]) == between(stored_rows(log.directory), split.start, split.end)


@given(steps=STEPS)
def test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    log = LogDir(tmp_path_factory.mktemp("logs") / "node", CONFIG)
    model = play(log, steps)
    log.close()
    end = log.log.log_end_offset
    assert log.ends() == (0, end, model.stable(end))
    remove(log, ".snapshot")
    assert log.ends() == (0, end, model.stable(end))


def test_an_abort_in_a_later_segment_reaches_back(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    log.write(1, b"rolled back")
    log.fill(40)
    log.end(1, ABORT)
    log.append(b"last")
    log.close()
    assert len(log.names(".log")) > 2
    assert len(log.names(".txnindex")) == 1
    end = log.ends()[2]
    splits = log.splits(0, end, read_committed=True, split_bytes=500)
    assert [one.aborted != () for one in splits].count(True) == len(splits)
    offsets = [row[0] for row in read_all(splits, read_committed=True)]
    assert offsets == [*range(1, 41), 42]
    remove(log, ".txnindex")
    splits = log.splits(0, end, read_committed=True, split_bytes=500)
    assert all(one.aborted == () for one in splits)
    assert [row[0] for row in read_all(splits, read_committed=True)] == offsets


def test_an_index_of_aborted_transactions_that_is_behind_is_not_trusted(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node")
    log.write(1, b"first")
    log.end(1, ABORT)
    older = log.path(0, ".txnindex").read_bytes()
    log.write(1, b"second", sequence=1)
    log.end(1, ABORT)
    log.append(b"kept")
    log.close()
    log.path(0, ".txnindex").write_bytes(older)
    (split,) = log.splits(0, 5, read_committed=True)
    assert len(split.aborted) == 1
    assert [row[0] for row in read_all([split], read_committed=True)] == [4]


@pytest.mark.parametrize("content", [b"", b"\1" * 34, b"\0" * 33, bytes(340)])
def test_a_damaged_index_of_aborted_transactions_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    log = LogDir(tmp_path / "node")
    log.write(1, b"rolled back")
    log.end(1, ABORT)
    log.append(b"kept")
    log.close()
    log.path(0, ".txnindex").write_bytes(content)
    assert [row[0] for row in log.rows(0, 3, read_committed=True)] == [2]


@pytest.mark.parametrize("change", [b"", b"\0" * 10, b"garbage that is no snapshot"])
def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, change: bytes) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    first = log.write(1, b"open")
    log.fill(30)
    log.close()
    end = log.log.log_end_offset
    assert log.ends()[2] == first
    for name in log.names(".snapshot"):
        (log.directory / name).write_bytes(change)
    assert log.ends() == (0, end, first)


def test_a_snapshot_from_before_the_log_starts_is_of_no_use(tmp_path: Path) -> None:
    """Its transaction may have ended in what was deleted since."""
    log = LogDir(tmp_path / "node", CONFIG)
    log.write(1, b"open when the snapshot is written")
    log.fill(25)
    log.end(1, COMMIT)
    log.fill(25)
    log.close()
    first, second = log.bases[1], log.bases[-1]
    for base in log.bases[:-1]:
        os.unlink(log.path(base))
    for name in log.names(".snapshot"):
        if not name.startswith(f"{first:020d}"):
            (log.directory / name).unlink()
    assert log.names(".snapshot")
    end = log.log.log_end_offset
    assert log.ends() == (second, end, end)


def test_a_transaction_below_the_range_does_not_reach_into_it(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    log.write(1, b"a", b"b")
    log.end(1, ABORT)
    log.write(1, b"c", sequence=2)
    log.end(1, COMMIT)
    log.close()
    (split,) = log.splits(3, 5, read_committed=True)
    assert split.aborted == ()
    assert [row[0] for row in read_all([split], read_committed=True)] == [3]


def test_what_the_heads_tell_ends_with_the_transactions_of_the_range(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    for _ in range(3):
        log.write(1, b"x", transactional=True)
        log.end(1, ABORT)
    log.close()
    segments = list_segments(str(log.directory))
    assert [one.first_offset for one in derived_aborted(segments, 0, 6)] == [0, 2, 4]
    assert [one.last_offset for one in derived_aborted(segments, 2, 3)] == [3]
    assert last_stable_offset(segments, 0, 3) == 2


def test_without_committed_reading_transactions_are_nobodys_business(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    log.write(1, b"rolled back")
    log.end(1, ABORT)
    log.close()
    (split,) = log.splits(0, 2)
    assert split.aborted == ()
    assert [row[0] for row in read_all([replace(split)])] == [0]
