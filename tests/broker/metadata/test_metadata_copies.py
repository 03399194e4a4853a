"""Copies of the metadata log: whatever one has missed or has too much, it is brought level with another."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.metadata import metadata_log
from kcli.broker.metadata.metadata_copies import MetadataCopies
from kcli.broker.metadata.metadata_replay import replay
from kcli.protocol.internal.metadata_records import FeatureLevelRecord

if TYPE_CHECKING:
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.metadata_log import MetadataLog

NOW_MS = 1_795_243_063_165


class Copies:
    """The copies of three nodes; every decision sets a feature to the next level."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.level = 0
        self.reports: list[str] = []
        self.open()

    def open(self) -> None:
        self.copies = MetadataCopies(wall_ms=lambda: NOW_MS, report=self.reports.append)
        for node_id in (1, 2, 3):
            self.copies.open(node_id, str(self.path / f"node-{node_id}"))

    def close(self) -> None:
        for node_id in (1, 2, 3):
            self.copies.close(node_id)

    def decide(self, leader: int, *others: int, new_epoch: bool = False) -> None:
        """Write one decision to some copies, which hold the same; `new_epoch` begins one first."""
        log = self.copies[leader]
        before = log.end_offset
        if new_epoch:
            # No epoch is anyone's twice: a new controller knows the last one.
            log.begin_epoch(1 + max(self.copies.version(node_id)[0] for node_id in (1, 2, 3)))
        self.level += 1
        log.append([FeatureLevelRecord(name="f", feature_level=self.level)])
        for batch in list(log.batches_from(before)):
            for other in others:
                self.copies[other].write(batch)

    def compact(self, node_id: int) -> None:
        log = self.copies[node_id]
        log.compact(self.image(node_id))

    def image(self, node_id: int) -> MetadataImage:
        return replay(self.copies[node_id].replay())


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copies:
    monkeypatch.setattr(metadata_log, "COMPACTION_BYTES", 0)
    return Copies(tmp_path)


def shown(log: MetadataLog) -> tuple[int, int, list[bytes]]:
    return log.epoch, log.end_offset, list(log.batches_from(0))


def test_an_empty_copy_gets_everything(copies: Copies) -> None:
    copies.decide(1, new_epoch=True)
    copies.decide(1)
    copies.copies[2].follow(copies.copies[1])
    assert shown(copies.copies[2]) == shown(copies.copies[1])
    assert copies.copies[2].end_offset == 3


def test_a_copy_that_missed_decisions_gets_them(copies: Copies) -> None:
    copies.decide(1, 2, new_epoch=True)
    copies.decide(1)
    copies.decide(1, new_epoch=True)
    copies.copies[2].follow(copies.copies[1])
    assert shown(copies.copies[2]) == shown(copies.copies[1])


def test_a_decision_that_the_others_do_not_know_is_cut_off(copies: Copies) -> None:
    copies.decide(1, 2, new_epoch=True)
    copies.decide(1)  # only the first node has it, and is not there when the second becomes the controller
    copies.decide(2, new_epoch=True)
    assert copies.copies.newest([1, 2, 3]) == 2
    copies.copies[1].follow(copies.copies[2])
    assert shown(copies.copies[1]) == shown(copies.copies[2])
    assert copies.image(1).features == {"f": 3}


def test_a_copy_that_ends_before_the_other_begins_gets_its_snapshot(copies: Copies) -> None:
    copies.decide(1, 2, new_epoch=True)
    copies.decide(1)
    copies.compact(1)
    copies.decide(1, new_epoch=True)
    copies.copies[2].follow(copies.copies[1])
    assert shown(copies.copies[2]) == shown(copies.copies[1])
    assert copies.copies[2].snapshot() == copies.copies[1].snapshot()
    assert copies.image(2) == copies.image(1)


def test_a_copy_whose_snapshot_nobody_else_knows_begins_again(copies: Copies) -> None:
    copies.decide(1, 2, 3, new_epoch=True)
    copies.decide(1)
    copies.compact(1)
    copies.decide(2, 3, new_epoch=True)
    copies.decide(2, 3)
    copies.copies[1].follow(copies.copies[2])
    assert shown(copies.copies[1]) == shown(copies.copies[2])
    assert copies.image(1) == copies.image(2)


def test_a_copy_that_parted_below_the_snapshot_of_the_other_gets_it(copies: Copies) -> None:
    copies.decide(3, new_epoch=True)  # alone, and not there when the others decide something else
    copies.decide(1, 2, new_epoch=True)
    copies.compact(1)
    copies.copies[3].follow(copies.copies[1])
    assert shown(copies.copies[3]) == shown(copies.copies[1])
    assert copies.image(3) == copies.image(1)


def test_a_copy_whose_snapshot_parted_from_the_log_of_the_other_begins_again(copies: Copies) -> None:
    copies.decide(1, 2, 3, new_epoch=True)
    copies.decide(1, 2)
    copies.decide(1, 2)
    copies.decide(3, new_epoch=True)
    copies.compact(3)
    copies.decide(1, 2)
    copies.decide(1, 2, new_epoch=True)
    assert copies.copies[1].start_offset < copies.copies[3].start_offset < copies.copies[1].end_offset
    copies.copies[3].follow(copies.copies[1])
    assert shown(copies.copies[3]) == shown(copies.copies[1])
    assert copies.image(3) == copies.image(1)


def test_the_newest_copy_has_the_greatest_epoch_then_the_greatest_end_then_the_lowest_id(
    copies: Copies,
) -> None:
    copies.decide(1, 2, 3, new_epoch=True)
    assert copies.copies.newest([1, 2, 3]) == 1
    assert copies.copies.newest([2, 3]) == 2
    copies.decide(2)
    assert copies.copies.newest([1, 2, 3]) == 2
    copies.decide(3, new_epoch=True)
    assert copies.copies.newest([1, 2, 3]) == 3
    assert copies.copies.newest([]) is None


steps = st.lists(
    st.tuples(
        st.sampled_from(["decide", "epoch", "compact", "reopen", "tear"]),
        st.integers(1, 3),
        st.sets(st.integers(1, 3)),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(steps)
def test_whatever_happened_the_newest_copy_is_what_all_have_in_the_end(
    steps: list[tuple[str, int, set[int]]],
) -> None:
    before, metadata_log.COMPACTION_BYTES = metadata_log.COMPACTION_BYTES, 0
    try:
        with TemporaryDirectory() as path:
            run_steps(Copies(Path(path)), steps)
    finally:
        metadata_log.COMPACTION_BYTES = before


def run_steps(copies: Copies, steps: list[tuple[str, int, set[int]]]) -> None:
    """Take steps as a cluster may: only the newest of the copies that are there is written to."""
    for step, _, absent in steps:
        there = [node_id for node_id in (1, 2, 3) if node_id not in absent]
        leader = copies.copies.newest(there)
        if leader is None:
            continue
        others = [node_id for node_id in there if node_id != leader]
        for other in others:
            copies.copies[other].follow(copies.copies[leader])
        if step == "compact":
            copies.compact(leader)
        elif step == "reopen":
            copies.close()
            copies.open()
        elif step == "tear":  # a crash between the first copy and the others
            copies.decide(leader, new_epoch=True)
        else:
            epoch = max(copies.copies.version(node_id)[0] for node_id in (1, 2, 3))
            is_alone = copies.copies.version(leader)[0] < epoch
            copies.decide(leader, *others, new_epoch=True if is_alone else step == "epoch")
    newest = copies.copies.newest([1, 2, 3])
    assert newest is not None
    for node_id in (1, 2, 3):
        if node_id != newest:
            copies.copies[node_id].follow(copies.copies[newest])
        assert copies.image(node_id) == copies.image(newest)
        assert copies.copies.version(node_id) == copies.copies.version(newest)
    copies.close()
    copies.open()
    assert copies.image(1) == copies.image(2) == copies.image(3)
    copies.close()
