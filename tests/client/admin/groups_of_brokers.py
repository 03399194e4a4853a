"""Groups of fake brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kcli.client.client import Client
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.messages import consumer_group_describe, describe_groups
from kcli.protocol.messages.describe_groups import DescribedGroupMember
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from tests.client.fake_brokers import FakeBrokers, fake_cluster


@asynccontextmanager
async def cluster_with(
    *, nodes: int = 1, hidden: tuple[type[Any], ...] = (), **max_versions: int
) -> AsyncIterator[tuple[FakeBrokers, Client]]:
    """Brokers that lack some APIs, or later versions of some, and a client."""
    async with fake_cluster(nodes=nodes) as (brokers, client):
        brokers.hidden.update(hidden)
        brokers.max_versions = {int(key.removeprefix("api_")): value for key, value in max_versions.items()}
        for node_id in brokers.nodes:
            brokers.disconnect(node_id)
        yield brokers, client


def listed(*groups: tuple[str, str, str, str], code: int = 0) -> ListGroupsResponse:
    """Return the response of one broker: groups of (id, protocol type, state, type)."""
    return ListGroupsResponse(
        error_code=code,
        groups=[
            ListedGroup(group_id=name, protocol_type=protocol, group_state=state, group_type=kind)
            for name, protocol, state, kind in groups
        ],
    )


def consumer_group(group_id: str, code: int = 0) -> consumer_group_describe.DescribedGroup:
    """Return a group of the consumer protocol with one member, or its error."""
    if code:
        return consumer_group_describe.DescribedGroup(
            error_code=code,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )

    def of_orders(*partitions: int) -> consumer_group_describe.Assignment:
        topic = consumer_group_describe.TopicPartitions(
            topic_id=b"o" * 16, topic_name="orders", partitions=list(partitions)
        )
        return consumer_group_describe.Assignment(topic_partitions=[topic])

    member = consumer_group_describe.Member(
        member_id="m1",
        instance_id="one",
        rack_id="r1",
        member_epoch=7,
        client_id="app",
        client_host="/10.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        assignment=of_orders(1, 0),
        target_assignment=of_orders(1),
        member_type=1,
    )
    return consumer_group_describe.DescribedGroup(
        group_id=group_id,
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member],
    )


def classic_group(
    group_id: str, protocol_type: str = "consumer", metadata: bytes | None = None
) -> describe_groups.DescribedGroup:
    """Return a stable classic group with one member."""
    if metadata is None:
        metadata = encode_subscription(Subscription(("orders", "bills"), rack_id="r1"))
    member = DescribedGroupMember(
        member_id="m1",
        group_instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        member_metadata=metadata,
        member_assignment=encode_assignment(Assignment({"orders": (2, 0), "bills": (1,)})),
    )
    return describe_groups.DescribedGroup(
        group_id=group_id,
        group_state="Stable",
        protocol_type=protocol_type,
        protocol_data="range",
        members=[member],
    )
