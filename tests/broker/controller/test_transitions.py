"""States of partitions and replicas: all pairs, and what images say."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from kcli.broker.controller.transitions import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionState,
    ReplicaState,
    is_legal,
    partition_state,
    replica_state,
    steps,
)
from kcli.broker.metadata_image import PartitionRegistration
from tests.support.metadata import broker, directory_of, image_of

P, R = PartitionState, ReplicaState

LEGAL_PARTITION_MOVES = """
NON_EXISTENT NEW
NEW ONLINE
NEW OFFLINE
ONLINE ONLINE
ONLINE OFFLINE
OFFLINE ONLINE
OFFLINE OFFLINE
OFFLINE NON_EXISTENT
"""
LEGAL_REPLICA_MOVES = """
NON_EXISTENT NEW
NEW ONLINE
NEW OFFLINE
ONLINE ONLINE
ONLINE OFFLINE
OFFLINE ONLINE
OFFLINE OFFLINE
OFFLINE DELETION_STARTED
OFFLINE DELETION_INELIGIBLE
DELETION_STARTED DELETION_SUCCESSFUL
DELETION_STARTED DELETION_INELIGIBLE
DELETION_SUCCESSFUL NON_EXISTENT
DELETION_INELIGIBLE ONLINE
DELETION_INELIGIBLE OFFLINE
"""


def pairs(states: Any, legal: str) -> list[Any]:
    moves = set(legal.split("\n"))
    return [
        pytest.param(before, after, f"{before.name} {after.name}" in moves, id=f"{before.name} {after.name}")
        for before, after in itertools.product(states, repeat=2)
    ]


@pytest.mark.parametrize(("before", "after", "expected"), pairs(P, LEGAL_PARTITION_MOVES))
def test_every_pair_of_partition_states(
    before: PartitionState, after: PartitionState, expected: bool
) -> None:
    assert is_legal(PARTITION_TRANSITIONS, before, after) is expected


@pytest.mark.parametrize(("before", "after", "expected"), pairs(R, LEGAL_REPLICA_MOVES))
def test_every_pair_of_replica_states(before: ReplicaState, after: ReplicaState, expected: bool) -> None:
    assert is_legal(REPLICA_TRANSITIONS, before, after) is expected


@pytest.mark.parametrize(
    ("table", "before", "after", "way"),
    [
        (PARTITION_TRANSITIONS, P.ONLINE, P.ONLINE, ()),
        (PARTITION_TRANSITIONS, P.NON_EXISTENT, P.ONLINE, (P.NEW, P.ONLINE)),
        (PARTITION_TRANSITIONS, P.ONLINE, P.NON_EXISTENT, (P.OFFLINE, P.NON_EXISTENT)),
        (
            REPLICA_TRANSITIONS,
            R.ONLINE,
            R.NON_EXISTENT,
            (R.OFFLINE, R.DELETION_STARTED, R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
        ),
        (REPLICA_TRANSITIONS, R.NON_EXISTENT, R.OFFLINE, (R.NEW, R.OFFLINE)),
    ],
)
def test_a_batch_may_hold_several_steps(table: Any, before: Any, after: Any, way: Any) -> None:
    assert steps(table, before, after) == way


def test_every_state_leads_to_every_other() -> None:
    tables: list[Any] = [PARTITION_TRANSITIONS, REPLICA_TRANSITIONS]
    for table in tables:
        for before, after in itertools.product(table, repeat=2):
            way = (before, *steps(table, before, after))
            assert all(is_legal(table, *each) for each in itertools.pairwise(way))


def test_no_way_is_told() -> None:
    with pytest.raises(ValueError, match="no way leads from 1 to 2"):
        steps({1: frozenset(), 2: frozenset()}, 1, 2)


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "expected"),
    [(1, 0, P.ONLINE), (1, 5, P.ONLINE), (-1, 0, P.NEW), (-1, 1, P.OFFLINE)],
)
def test_the_state_of_a_partition(leader: int, leader_epoch: int, expected: PartitionState) -> None:
    partition = PartitionRegistration((1, 2), (1,), leader=leader, leader_epoch=leader_epoch)
    assert partition_state(partition) is expected
    assert partition_state(None) is P.NON_EXISTENT


@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        (1, R.ONLINE),
        (2, R.OFFLINE),
        (3, R.NEW),
        (4, R.ONLINE),
        (5, R.OFFLINE),
        (6, R.OFFLINE),
        (7, R.NON_EXISTENT),
    ],
)
def test_the_state_of_a_replica(node_id: int, expected: ReplicaState) -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3), broker(4), broker(5), broker(7)]
    brokers[4] = replace(brokers[4], directories=(b"another director",))
    partition = PartitionRegistration(
        replicas=(1, 2, 3, 4, 5, 6),
        isr=(1, 4),
        leader=1,
        adding=(3, 4),
        directories=tuple(directory_of(each) for each in (1, 2, 3, 4, 5, 6)),
    )
    assert replica_state(image_of(*brokers), partition, node_id) is expected
    assert replica_state(image_of(*brokers), None, node_id) is R.NON_EXISTENT
