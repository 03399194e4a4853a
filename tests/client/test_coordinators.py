"""Coordinators are looked up together, cached, and forgotten; retriable errors are retried."""

from __future__ import annotations

import pytest
import trio

from kcli.client.config import ClientConfig
from kcli.client.network.metadata import Node
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.client.fake_brokers import Disconnect, fake_cluster

FIND_COORDINATOR = 10


def refused(key: str, code: ErrorCode, message: str | None = None) -> FindCoordinatorResponse:
    """Return the response about one key from version 4 on."""
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
        ]
    )


async def test_a_coordinator_is_asked_for_once(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=3) as (brokers, client):
        brokers.coordinators["billing"] = 3
        assert client.coordinators.known("billing") is None
        for _ in range(3):
            assert await client.coordinators.find("billing") == Node(3, "broker-3", 9092)
        assert client.coordinators.known("billing") == Node(3, "broker-3", 9092)
        assert len(brokers.received(FindCoordinatorRequest)) == 1


async def test_a_forgotten_coordinator_is_looked_up_again(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        await client.coordinators.find("billing")
        brokers.coordinators["billing"] = 2
        client.coordinators.forget("billing")
        client.coordinators.forget("billing")
        assert (await client.coordinators.find("billing")).node_id == 2


@pytest.mark.parametrize(("version", "requests"), [(0, 3), (3, 3), (4, 1), (6, 1)])
async def test_several_groups_travel_together_where_the_broker_can(
    version: int, requests: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with fake_cluster(nodes=3) as (brokers, client):
        brokers.max_versions[FIND_COORDINATOR] = version
        brokers.disconnect(1)
        brokers.coordinators = {"a": 1, "b": 2, "c": 3}
        found = await client.coordinators.find_many(["a", "b", "c", "a"])
        assert {key: node.node_id for key, node in found.items() if isinstance(node, Node)} == {
            "a": 1,
            "b": 2,
            "c": 3,
        }
        assert len(brokers.received(FindCoordinatorRequest)) == requests


async def test_answers_that_say_later_and_lost_connections_are_retried(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            FindCoordinatorRequest,
            refused("billing", ErrorCode.COORDINATOR_NOT_AVAILABLE),
            Disconnect,
            refused("billing", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )
        assert (await client.coordinators.find("billing")).node_id == 1
        assert len(brokers.received(FindCoordinatorRequest)) == 4
        assert 0.2 < trio.current_time() < 2


async def test_only_the_groups_without_a_coordinator_are_asked_about_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        first = FindCoordinatorResponse(
            coordinators=[
                *refused("late", ErrorCode.COORDINATOR_NOT_AVAILABLE).coordinators,
                *refused("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED).coordinators,
                Coordinator(key="early", node_id=1, host="broker-1", port=9092, error_message=None),
            ]
        )
        brokers.script(FindCoordinatorRequest, first)
        found = await client.coordinators.find_many(["late", "secret", "early", "left-out"])
        asked = [request.coordinator_keys for request in brokers.received(FindCoordinatorRequest)]
        assert asked == [["late", "secret", "early", "left-out"], ["late"]]
        assert found["late"] == found["early"] == Node(1, "broker-1", 9092)
        codes = [answer.code for answer in found.values() if isinstance(answer, KafkaError)]
        assert codes == [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR]


async def test_a_refusal_is_raised_at_once_with_the_brokers_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            FindCoordinatorRequest, refused("billing", ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours")
        )
        with pytest.raises(KafkaError, match="not yours") as caught:
            await client.coordinators.find("billing")
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert trio.current_time() < 1


async def test_a_lookup_that_never_succeeds_ends_with_the_time_given(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(
            FindCoordinatorRequest, *[refused("billing", ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 99
        )
        with pytest.raises(KafkaError, match="the coordinator is not available"):
            await client.coordinators.find("billing", timeout_ms=5_000)
        assert 3 < trio.current_time() <= 5.1


async def test_a_coordinator_that_metadata_has_not_named_yet_is_reached(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.nodes[2] = Node(2, "broker-2", 9092)
        brokers.coordinators["billing"] = 2
        link = await client.coordinators.link("billing")
        assert (await link.ready()).address == "broker-2:9092"


async def test_a_coordinator_that_left_the_cluster_is_looked_up_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        brokers.coordinators["billing"] = 2
        await client.coordinators.find("billing")
        del brokers.nodes[2]
        brokers.coordinators["billing"] = 1
        await client.metadata(())
        assert (await client.coordinators.find("billing")).node_id == 1


async def test_members_have_a_connection_to_the_coordinator_of_their_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(ClientConfig()) as (_, client):
        link = await client.coordinators.link("billing")
        assert link is not client.links.get(1)
        assert link is await client.coordinators.link("another")
