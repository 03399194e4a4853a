"""Members of both protocols in one group."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataKey, decode_record
from tests.broker.coordinator.consumer.migrating_members import kind, mixed, shares, turns
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers
from tests.broker.coordinator.virtual_coordinator import Call


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


def join(world: VirtualConsumers, member_id: str = "", **fields: Any) -> Call:
    return world.join(member_id, protocols={"range": encode_subscription(Subscription(("t",)))}, **fields)


def test_a_classic_member_joins_without_waiting_and_gets_what_is_free(world: VirtualConsumers) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    assert join(world).error is ErrorCode.MEMBER_ID_REQUIRED
    joined = join(world, "m")
    assert (joined.response.generation_id, joined.response.protocol_name, joined.response.leader) == (
        3,
        "range",
        "",
    )
    synced = world.sync("m", 3)
    assert decode_assignment(synced.response.assignment).partitions == {}
    assert world.heartbeat("m", 3).error is ErrorCode.NONE, "it waits for what is not free"
    turns([modern], 2)
    assert world.heartbeat("m", 3).error is ErrorCode.REBALANCE_IN_PROGRESS
    join(world, "m")
    assert decode_assignment(world.sync("m", 3).response.assignment).partitions == {"t": (2, 3)}
    assert world.heartbeat("m", 3).error is ErrorCode.NONE


def test_a_classic_member_gives_up_in_two_steps_if_it_says_what_it_has(world: VirtualConsumers) -> None:
    def joined(*owned: int) -> int:
        mine = Subscription(("t",), owned_partitions={"t": owned})
        call = world.join("m", protocols={"cooperative-sticky": encode_subscription(mine)})
        return int(call.response.generation_id)

    def synced(generation: int) -> tuple[int, ...]:
        call = world.sync("m", generation)
        return decode_assignment(call.response.assignment).partitions["t"]

    modern = Consumer(world, "a", {})
    turns([modern], 1)
    joined()
    turns([modern], 2)
    generation = joined()
    assert synced(generation) == (2, 3)
    world.enter("b")
    world.enter("c")
    assert world.heartbeat("m", generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(2, 3) == generation, "it stays in its generation until it has given up"
    assert synced(generation) == (2,)
    assert world.outline()["m"] == f"{generation} unrevoked t2 -t3"
    assert world.heartbeat("m", generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(2) == world.consumer_group().epoch
    assert world.outline()["m"] == f"{world.consumer_group().epoch} stable t2"


CLASSIC_ERRORS: dict[str, tuple[str, dict[str, Any], ErrorCode]] = {
    "heartbeat of a stranger": ("heartbeat", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "heartbeat of a member of the new protocol": (
        "heartbeat",
        {"member_id": "a"},
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
    "heartbeat of another generation": ("heartbeat", {"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    "heartbeat of an unknown instance": ("heartbeat", {"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "sync of a stranger": ("sync", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "sync of another generation": ("sync", {"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    "sync for another protocol": ("sync", {"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "sync for another type": ("sync", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with too short a session": ("join", {"session_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
    "join with another type": ("join", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with other protocols": ("join", {"protocols": {"own": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with malformed metadata": ("join", {"protocols": {"range": b"\0"}}, ErrorCode.UNKNOWN_SERVER_ERROR),
    "join without metadata": ("join", {"protocols": {"range": b""}}, ErrorCode.UNKNOWN_SERVER_ERROR),
    "join of an unknown instance": ("join", {"member_id": "x", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(("request_name", "fields", "error"), CLASSIC_ERRORS.values(), ids=CLASSIC_ERRORS)
def test_a_classic_request_that_is_wrong_is_refused(
    world: VirtualConsumers, request_name: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    world.enter("a")
    join(world, "m")
    size = len(world.log)
    said = {"member_id": "m", **fields}
    if request_name != "join":
        said.setdefault("generation", 3)
    assert getattr(world, request_name)(**said).error is error
    assert len(world.log) == size


def test_classic_members_do_not_get_into_a_group_without_migration() -> None:
    world = VirtualConsumers(migration_policy="disabled")
    world.enter("a")
    assert join(world, "m").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_member_either() -> None:
    world = VirtualConsumers(consumer_max_size=1)
    world.enter("a")
    assert join(world, "m").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_both_protocols_are_removed_by_one_request(world: VirtualConsumers) -> None:
    world.enter("a")
    world.enter("b", instance_id="i")
    join(world, "m")
    left = world.leave("a", ("", "i"), ("m", None), ("x", None), ("m", "j"))
    assert [each.error_code for each in left.response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert kind(world) == "consumer Empty"
    assert world.leave("m", version=1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_members_commit_in_their_generation(world: VirtualConsumers) -> None:
    world.enter("a")
    join(world, "m")
    errors = [
        world.commit({("t", 0): 1}, member_id="m", generation=generation, version=5)
        .response.topics[0]
        .partitions[0]
        .error_code
        for generation in (3, 2, 4)
    ]
    assert errors == [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize("forgets", ["to join", "to sync"])
def test_a_classic_member_that_does_not_do_what_it_is_told_is_removed(
    world: VirtualConsumers, forgets: str
) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    join(world, "m", rebalance_ms=20_000)
    if forgets == "to join":
        world.sync("m", 3)
        turns([modern], 2)
    for _ in range(5):
        assert "m" in world.consumer_group().members
        world.heartbeat("m", 3)
        modern.beat()
        world.advance(4_000)
    assert "m" not in world.consumer_group().members


def test_a_classic_member_whose_joining_was_not_committed_in_time_is_removed_unless_it_comes_again(
    world: VirtualConsumers,
) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    world.holds_commits = True
    call = join(world, "m", rebalance_ms=20_000)
    world.fail_held()
    world.holds_commits = False
    assert call.error is ErrorCode.REQUEST_TIMED_OUT
    assert "m" in world.consumer_group().members
    for _ in range(5):
        world.advance(4_000)
        modern.beat()
    assert "m" not in world.consumer_group().members


def test_a_restart_in_the_middle_of_a_migration_loses_nobody(world: VirtualConsumers) -> None:
    consumers, modern = mixed(world)
    before = world.outline()
    world.restart()
    assert world.outline() == before
    turns([modern, *consumers])
    shares(modern, *consumers)
    written = [decode_record(key, value) for key, value in world.log]
    assert sum(isinstance(each.key, GroupMetadataKey) and each.value is None for each in written) == 1
