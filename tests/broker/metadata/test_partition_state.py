"""States of partitions: what images say."""

from __future__ import annotations

import pytest

from kcli.broker.metadata.registrations import PartitionRegistration, PartitionState, partition_state


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "expected"),
    [
        (1, 0, PartitionState.ONLINE),
        (1, 5, PartitionState.ONLINE),
        (-1, 0, PartitionState.NEW),
        (-1, 1, PartitionState.OFFLINE),
    ],
)
def test_the_state_of_a_partition(leader: int, leader_epoch: int, expected: PartitionState) -> None:
    partition = PartitionRegistration((1, 2), (1,), leader=leader, leader_epoch=leader_epoch)
    assert partition_state(partition) is expected
