"""The throttles of a reassignment: rates of brokers and throttled replicas of topics (KIP-73)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client import admin
from kcli.client.admin import ConfigAlteration, ConfigOperation, ConfigResource, ConfigResourceType
from kcli.client.admin.types import ConfigEntry
from kcli.commands.shared.session import failure
from kcli.errors import KcliError
from kcli.protocol.configs import ConfigSource
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.plan import MoveMap

BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

PATIENCE_SECONDS = 15.0
"""How long an unreachable broker may take to come back."""

RETRY_SECONDS = 0.5

WHOLE_TOPIC = "*"
"""All replicas of a topic. A reassignment never sets this value, so it is meant to stay."""


class Throttled(NamedTuple):
    """The brokers and topics that have throttles."""

    brokers: list[int]
    topics: list[str]


async def set_throttles(client: Client, moves: MoveMap, *, rate: int) -> None:
    """Limit moves to `rate` bytes a second on each broker; raise the first refusal."""
    leaders, followers = moves.leader_throttles(), moves.follower_throttles()
    topics = {
        _topic(topic): [
            _set(name, values[topic])
            for name, values in zip(TOPIC_REPLICAS, (leaders, followers), strict=True)
        ]
        for topic in leaders
    }
    brokers = {
        _broker(broker): [_set(name, str(rate)) for name in BROKER_RATES] for broker in moves.brokers()
    }
    failures = await _alter(client, topics) or await _alter(client, brokers)
    if failures:
        raise failures[0]


async def set_log_dir_throttles(client: Client, brokers: Iterable[int], *, rate: int) -> None:
    """Limit moves between the log directories of brokers; raise the first refusal."""
    failures = await _alter(
        client, {_broker(broker): [_set(LOG_DIR_RATE, str(rate))] for broker in sorted(set(brokers))}
    )
    if failures:
        raise failures[0]


async def clear_throttles(client: Client, brokers: Iterable[int], topics: Iterable[str]) -> list[KcliError]:
    """Remove every throttle of brokers and topics; return what could not be removed."""
    rates = [_delete(name) for name in (*BROKER_RATES, LOG_DIR_RATE)]
    replicas = [_delete(name) for name in TOPIC_REPLICAS]
    of_brokers = await _alter(client, {_broker(broker): rates for broker in brokers})
    return [*of_brokers, *await _alter(client, {_topic(topic): replicas for topic in topics})]


async def find_throttles(client: Client) -> Throttled:
    """Return the brokers and topics with throttles that a reassignment may have left.

    If a whole topic is throttled permanently, the rates of brokers are meant to stay too.
    """
    nodes = (await admin.describe_cluster(client)).nodes
    brokers = [_broker(node.node_id) for node in nodes]
    topics = [_topic(listing.name) for listing in await admin.list_topics(client)]
    rates = await admin.describe_configs(client, brokers, names=(*BROKER_RATES, LOG_DIR_RATE))
    found = await admin.describe_configs(client, topics, names=TOPIC_REPLICAS)
    replicas = {resource.name: _dynamic(entries) for resource, entries in found.items()}
    with_rates = [int(resource.name) for resource, entries in rates.items() if _dynamic(entries)]
    is_permanent = any(WHOLE_TOPIC in values for values in replicas.values())
    with_replicas = [name for name, values in replicas.items() if values and WHOLE_TOPIC not in values]
    return Throttled([] if is_permanent else with_rates, with_replicas)


def _dynamic(entries: tuple[ConfigEntry, ...] | KcliError) -> list[str]:
    """Return the values of throttles that were set dynamically."""
    if isinstance(entries, KcliError):
        return []
    return [
        entry.value
        for entry in entries
        if entry.name in (*BROKER_RATES, LOG_DIR_RATE, *TOPIC_REPLICAS)
        and entry.source in (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        and entry.value
    ]


async def _alter(
    client: Client, alterations: Mapping[ConfigResource, list[ConfigAlteration]]
) -> list[KcliError]:
    """Alter configurations and return the failures; ask an unreachable broker again."""
    failed: dict[ConfigResource, KcliError] = {}
    pending = dict(alterations)
    with trio.move_on_after(PATIENCE_SECONDS):
        while pending:
            async with trio.open_nursery() as nursery:
                for group in _groups(pending):
                    nursery.start_soon(_alter_group, client, group, failed)
            pending = {
                resource: pending[resource]
                for resource, error in failed.items()
                if resource in pending
                and (not isinstance(error, KafkaError) or error.code == ErrorCode.BROKER_NOT_AVAILABLE)
            }
            if pending:
                await trio.sleep(RETRY_SECONDS)
                # Only for the addresses of brokers. Those still away fail again at the next request.
                with suppress(KcliError):
                    await client.metadata(())
    return [
        failure(f"cannot change the throttles of {resource.type.name.lower()} `{resource.name}`", error)
        for resource, error in failed.items()
    ]


def _groups(
    alterations: Mapping[ConfigResource, list[ConfigAlteration]],
) -> list[dict[ConfigResource, list[ConfigAlteration]]]:
    """Return one request for each broker, and one for all topics."""
    topics = {
        resource: changes
        for resource, changes in alterations.items()
        if resource.type == ConfigResourceType.TOPIC
    }
    brokers = [{resource: changes} for resource, changes in alterations.items() if resource not in topics]
    return [*brokers, *([topics] if topics else [])]


async def _alter_group(
    client: Client,
    alterations: Mapping[ConfigResource, list[ConfigAlteration]],
    failed: dict[ConfigResource, KcliError],
) -> None:
    try:
        results: Mapping[ConfigResource, KcliError | None] = await admin.incremental_alter_configs(
            client, alterations
        )
    except KcliError as error:
        results = dict.fromkeys(alterations, error)
    for resource, answer in results.items():
        failed.pop(resource, None)
        if answer is not None:
            failed[resource] = answer


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def _broker(node_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(node_id))


def _set(name: str, value: str) -> ConfigAlteration:
    return ConfigAlteration(name, ConfigOperation.SET, value)


def _delete(name: str) -> ConfigAlteration:
    return ConfigAlteration(name, ConfigOperation.DELETE)
