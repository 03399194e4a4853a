"""Any sequence of commits, transactions and deletions leaves what its records say."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.error_codes import ErrorCode
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


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["commit", "txn", "txn", "txn", "end", "end", "delete", "delete group"]),
            GROUPS,
            PARTITIONS,
            PRODUCERS,
            st.booleans(),
        ),
        max_size=25,
    ),
    restarts=st.sets(st.integers(0, 24)),
)
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
