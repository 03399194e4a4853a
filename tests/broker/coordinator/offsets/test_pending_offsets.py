"""Any sequence of commits, transactions and deletions leaves what its records say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.coordinator.runtime.loader import LogReplay
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from tests.broker.coordinator.virtual_coordinator import VirtualCoordinator

PARTITIONS = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
PRODUCERS = st.sampled_from([7, 8])
GROUPS = st.sampled_from(["g", "h"])

Step = tuple[str, str, tuple[str, int], int, bool]


class Model:
    """The offsets as plain lists of records: what Kafka's rules say, without any index."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, tuple[str, int]], tuple[int, int]] = {}
        """The value and the place of the record of each stored offset."""
        self.pending: list[tuple[int, tuple[str, tuple[str, int]], int, int]] = []
        """Producer, group and partition, value, place."""
        self.place = 0

    def step(self, kind: str, group: str, partition: tuple[str, int], producer: int, flag: bool) -> None:
        key = (group, partition)
        self.place += 1
        if kind == "commit":
            self.stored[key] = (self.place, self.place)
        elif kind == "txn":
            self.pending = [each for each in self.pending if each[:2] != (producer, key)]
            self.pending.append((producer, key, self.place, self.place))
        elif kind == "end":
            for owner, written, value, place in self.pending:
                if owner == producer and flag and place > self.stored.get(written, (0, 0))[1]:
                    self.stored[written] = (value, place)
            self.pending = [each for each in self.pending if each[0] != producer]
        else:
            keys = {written for written in self.all_keys() if written[0] == group}
            for gone in keys if kind == "delete group" else {key}:
                self.stored.pop(gone, None)
                self.pending = [each for each in self.pending if each[1] != gone]

    def all_keys(self) -> set[tuple[str, tuple[str, int]]]:
        return {*self.stored, *(each[1] for each in self.pending)}

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        return {partition: value for (name, partition), (value, _) in self.stored.items() if name == group}


def perform(world: VirtualCoordinator, place: int, step: Step) -> None:
    kind, group, partition, producer, flag = step
    calls: dict[str, Callable[[], object]] = {
        "commit": lambda: world.commit({partition: place}, group=group),
        "txn": lambda: world.txn_commit({partition: place}, group=group, producer_id=producer),
        "end": lambda: world.end_txn(producer, commit=flag),
        "delete": lambda: world.delete_offsets(partition, group=group),
        "delete group": lambda: world.delete(group),
    }
    calls[kind]()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "txn", "txn", "txn", "end", "end", "delete", "delete group"]),
        GROUPS,
        PARTITIONS,
        PRODUCERS,
        st.booleans(),
    ),
    max_size=25,
)


@given(steps=STEPS, restarts=st.sets(st.integers(0, 24)))
def test_offsets_are_what_the_records_say(steps: list[Step], restarts: set[int]) -> None:
    world, model = VirtualCoordinator(), Model()
    for place, step in enumerate(steps, start=1):
        perform(world, place, step)
        model.step(*step)
        if place in restarts:
            world.restart()
        for group in ("g", "h"):
            assert world.offsets(group) == model.offsets(group)
            for partition in (("t", 0), ("t", 1), ("u", 0)):
                is_pending = any(each[1] == (group, partition) for each in model.pending)
                assert world.unstable(partition, group=group) == [is_pending]
    for producer in (7, 8):
        assert world.end_txn(producer).response == ErrorCode.NONE
    assert not world.shard._offsets.store.pending


@given(steps=STEPS, cuts=st.sets(st.integers(0, 40)))
def test_a_coordinator_that_loads_the_log_in_any_pages_knows_the_same(
    steps: list[Step], cuts: set[int]
) -> None:
    world = VirtualCoordinator()
    for place, step in enumerate(steps, start=1):
        perform(world, place, step)
    loaded = VirtualCoordinator()
    replay = LogReplay(loaded.shard, decode=decode_record, report=pytest.fail)
    page = b""
    for offset in range(len(world.log)):
        page += logged_batch(world, offset)
        if offset in cuts or offset == len(world.log) - 1:
            for _ in replay.page(page):
                pass
            page = b""
    for group in ("g", "h"):
        assert loaded.offsets(group) == world.offsets(group)
        for partition in (("t", 0), ("t", 1), ("u", 0)):
            assert loaded.unstable(partition, group=group) == world.unstable(partition, group=group)


def logged_batch(world: VirtualCoordinator, offset: int) -> bytes:
    """The record or the marker at an offset, as in a log."""
    found = world.markers.get(offset)
    if found is not None:
        data = found.batch(timestamp=0)
        set_base_offset_and_epoch(data, 0, offset, 0)
        return bytes(data)
    producer_id = world.producers.get(offset, -1)
    builder = RecordBatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=producer_id >= 0
    )
    builder.append(0, *world.log[offset])
    return bytes(builder.build())
