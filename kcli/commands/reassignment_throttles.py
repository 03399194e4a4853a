"""Setting and removing the throttles of a reassignment: rates of brokers, replicas of topics (KIP-73)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.client.admin import ConfigAlteration, ConfigOperation, ConfigResource, ConfigResourceType
from kcli.commands.reassignment_moves import follower_throttles, leader_throttles, moving_brokers
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.metadata import TopicPartition
    from kcli.commands.reassignment_moves import Move

BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
OTHER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


async def set_throttles(client: Client, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    """Limit every move to `rate` bytes a second and broker; raises the first refusal."""
    leaders, followers = leader_throttles(moves), follower_throttles(moves)
    topics = {
        _topic(topic): [_set(LEADER_REPLICAS, leaders[topic]), _set(FOLLOWER_REPLICAS, followers[topic])]
        for topic in leaders
    }
    brokers = {
        _broker(broker): [_set(name, str(rate)) for name in BROKER_RATES] for broker in moving_brokers(moves)
    }
    failures = await _alter(client, topics) or await _alter(client, brokers)
    if failures:
        raise failures[0]


async def clear_throttles(client: Client, brokers: Iterable[int], topics: Iterable[str]) -> list[KcliError]:
    """Remove every throttle of brokers and topics; returns what could not be removed."""
    rates = [_delete(name) for name in (*BROKER_RATES, OTHER_RATE)]
    replicas = [_delete(name) for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
    of_brokers = await _alter(client, {_broker(broker): rates for broker in brokers})
    return [*of_brokers, *await _alter(client, {_topic(topic): replicas for topic in topics})]


async def _alter(
    client: Client, alterations: dict[ConfigResource, list[ConfigAlteration]]
) -> list[KcliError]:
    from kcli.client import admin
    from kcli.commands.session import failure

    results = await admin.incremental_alter_configs(client, alterations)
    return [
        failure(f"cannot change the throttles of {resource.type.name.lower()} `{resource.name}`", error)
        for resource, error in results.items()
        if error is not None
    ]


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def _broker(node_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(node_id))


def _set(name: str, value: str) -> ConfigAlteration:
    return ConfigAlteration(name, ConfigOperation.SET, value)


def _delete(name: str) -> ConfigAlteration:
    return ConfigAlteration(name, ConfigOperation.DELETE)
