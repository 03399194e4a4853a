"""Moves of partitions: begun, replaced, ended by the change that makes the last replica in sync, stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.broker.controller.partition_change import PartitionDecisions
from kcli.broker.controller.reassignment_control import Reassignment, alter_reassignments
from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.metadata_records import ConfigRecord, PartitionChangeRecord
from tests.support.metadata import broker, directory_of, image_of, topic_id, with_topic


def cluster(*replicas: int, fenced: int | None = None) -> MetadataImage:
    brokers = [broker(node_id, fenced=node_id == fenced) for node_id in range(1, 7)]
    return with_topic(image_of(*brokers), "a", 1, replicas or (1, 2, 3))


def alter(
    image: MetadataImage, replicas: tuple[int, ...] | None, *, any_count: bool = True
) -> tuple[MetadataImage, ErrorCode]:
    result = alter_reassignments(
        PartitionDecisions(image, {}),
        [Reassignment("a", 0, replicas)],
        allow_replication_factor_change=any_count,
    )
    (error,) = result.response
    return apply(image, result.records)[0], ErrorCode.NONE if error is None else error.code


def in_sync(image: MetadataImage, *isr: int) -> MetadataImage:
    """Return the image after the leader made these replicas the in-sync ones."""
    decisions = PartitionDecisions(image, {})
    change = decisions.change(decisions.place("a", 0), isr=isr)
    return apply(image, [] if change is None else [change])[0]


def state(image: MetadataImage) -> PartitionRegistration:
    return image.topics["a"].partitions[0]


def test_a_move_is_the_union_until_the_new_replicas_are_in_sync() -> None:
    image, error = alter(cluster(), (3, 4, 5))
    assert error is ErrorCode.NONE
    moving = state(image)
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 4, 5, 1, 2), (4, 5), (1, 2))
    assert (moving.isr, moving.leader, moving.leader_epoch) == ((1, 2, 3), 1, 0)
    image = in_sync(image, 1, 2, 3, 4)
    assert state(image).adding == (4, 5)
    image = in_sync(image, 1, 2, 3, 4, 5)
    done = state(image)
    assert (done.replicas, done.isr, done.adding, done.removing) == ((3, 4, 5), (3, 4, 5), (), ())
    assert (done.leader, done.leader_epoch) == (3, 1)
    assert done.directories == tuple(map(directory_of, (3, 4, 5)))


@pytest.mark.parametrize(
    ("target", "leader", "epoch"),
    [((3, 2, 1), 1, 0), ((1, 2), 1, 1), ((2, 3), 2, 1)],
    ids=["another order", "fewer", "without the leader"],
)
def test_a_move_to_replicas_in_sync_ends_at_once(target: tuple[int, ...], leader: int, epoch: int) -> None:
    image, error = alter(cluster(), target)
    assert error is ErrorCode.NONE
    assert (state(image).replicas, state(image).leader, state(image).leader_epoch) == (target, leader, epoch)
    assert (state(image).adding, state(image).removing) == ((), ())


@pytest.mark.parametrize(
    ("target", "any_count", "expected"),
    [
        ((), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1, 2), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 9), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -1, 2), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, True, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((1, 2), False, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((4, 5, 6), False, ErrorCode.NONE),
        ((1, 2, 3), True, ErrorCode.NONE),
    ],
)
def test_what_is_refused(target: tuple[int, ...] | None, any_count: bool, expected: ErrorCode) -> None:
    before = cluster()
    after, error = alter(before, target, any_count=any_count)
    assert error is expected
    if expected is not ErrorCode.NONE:
        assert state(after) == state(before)


@pytest.mark.parametrize(
    ("targets", "replicas", "adding"),
    [
        ([(4, 2, 3), (5, 2, 3)], (5, 2, 3, 1), (5,)),
        ([(4, 2, 3), (1, 2, 3)], (1, 2, 3), ()),
        ([(5, 2, 3), (9, 2, 3)], (5, 2, 3, 1), (5,)),
    ],
    ids=["another", "as it was", "refused"],
)
def test_of_a_partition_that_is_named_twice_the_last_allowed_change_counts(
    targets: list[tuple[int, ...]], replicas: tuple[int, ...], adding: tuple[int, ...]
) -> None:
    result = alter_reassignments(
        PartitionDecisions(cluster(), {}), [Reassignment("a", 0, target) for target in targets]
    )
    after = state(apply(cluster(), result.records)[0])
    assert (after.replicas, after.adding) == (replicas, adding)
    assert [error and error.code for error in result.response] == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT if 9 in target else None for target in targets
    ]


def test_a_broker_that_is_down_is_a_target_all_the_same() -> None:
    image, error = alter(cluster(fenced=6), (1, 2, 6))
    assert (error, state(image).adding) == (ErrorCode.NONE, (6,))


def test_a_new_move_replaces_one_that_has_not_ended() -> None:
    image, _ = alter(cluster(), (4, 5, 6))
    image, _ = alter(image, (1, 2, 3))
    assert (state(image).replicas, state(image).adding, state(image).removing) == ((1, 2, 3), (), ())
    assert state(image).leader_epoch == 1


@pytest.mark.parametrize(
    ("second", "replicas", "adding", "removing"),
    [
        ((4, 5, 6), (4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)),
        ((4, 5, 1), (4, 5, 1, 2, 3, 6), (4, 5, 6), (2, 3, 6)),
        ((1, 2, 4), (1, 2, 4, 3, 5, 6), (4, 5, 6), (3, 5, 6)),
    ],
)
def test_a_plan_may_overlap_with_the_one_that_it_replaces(
    second: tuple[int, ...], replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> None:
    first, _ = alter(cluster(), (4, 5, 6))
    image, _ = alter(first, second)
    assert (state(image).replicas, state(image).adding, state(image).removing) == (replicas, adding, removing)
    if second == (4, 5, 6):
        assert state(image) == state(first)
    assert state(alter(image, None)[0]).replicas == tuple(each for each in replicas if each in {1, 2, 3})


def test_a_stopped_move_leaves_the_former_replicas() -> None:
    image = in_sync(alter(cluster(), (4, 5, 6))[0], 1, 2, 3, 4)
    image, error = alter(image, None)
    stopped = state(image)
    assert error is ErrorCode.NONE
    assert (stopped.replicas, stopped.isr, stopped.leader, stopped.leader_epoch) == (
        (1, 2, 3),
        (1, 2, 3),
        1,
        1,
    )


@pytest.mark.parametrize(
    ("unclean", "expected"),
    [("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", ErrorCode.NONE)],
)
def test_stopping_may_need_an_unclean_election(unclean: str, expected: ErrorCode) -> None:
    image, _ = alter(cluster(), (4, 5, 6))
    only_new = PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[4], leader=4)
    config = ConfigRecord(
        resource_type=2, resource_name="a", name="unclean.leader.election.enable", value=unclean
    )
    image, _ = apply(image, [only_new, config])
    image, error = alter(image, None)
    assert error is expected
    if error is ErrorCode.NONE:
        assert (state(image).replicas, state(image).leader) == ((1, 2, 3), 1)


def test_what_does_not_exist_fails_alone() -> None:
    image = cluster()
    wanted = [Reassignment("b", 0, (1,)), Reassignment("a", 1, (1,)), Reassignment("a", 0, (4, 5, 6))]
    result = alter_reassignments(PartitionDecisions(image, {}), wanted)
    codes = [None if error is None else error.code for error in result.response]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None]
    assert len(result.records) == 1


def test_the_defaults_of_the_process_stand_below_those_of_the_cluster() -> None:
    decisions = PartitionDecisions(cluster(), {"unclean.leader.election.enable": True})
    assert decisions.may_elect_unclean("a")
    configs = {(4, ""): {"unclean.leader.election.enable": "false"}}
    assert not PartitionDecisions(replace(cluster(), configs=configs), {}).may_elect_unclean("a")
