"""Lines in the broker's log about changes of the metadata: `ClusterEvents` and `ConfigWarnings`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.config.config_entries import find_config
from kcli.broker.config.inert_configs import warning
from kcli.broker.metadata.registrations import LeaderRecoveryState, PartitionState, partition_state
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.metadata.metadata_image import (
        BrokerRegistration,
        ConfigResource,
        MetadataDelta,
        MetadataImage,
    )
    from kcli.broker.metadata.registrations import PartitionRegistration

NAMED = 5
"""The partitions that a line names; it counts the rest."""

_log = logging.getLogger(__name__)


class ClusterEvents:
    """Logs nodes that come and go, and partitions that lose or find a leader, from `image` on.

    A partition without a leader explains a waiting producer and an idle consumer; an unclean leader may have
    lost records. Each decision makes at most one line of each kind.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        before, self._image = self._image, image
        for node_id in sorted(delta.changed_brokers):
            _log_node(node_id, before.brokers.get(node_id), image.brokers.get(node_id))
        lost, found, unclean = [], [], []
        for name, former, partition in _changes(before, image, delta):
            states = partition_state(former), partition_state(partition)
            if states == (PartitionState.ONLINE, PartitionState.OFFLINE):
                lost.append(name)
            elif _is_newly_recovering(former, partition):
                unclean.append(f"{name} (node {partition.leader})")
            elif states == (PartitionState.OFFLINE, PartitionState.ONLINE):
                found.append(name)
        if lost:
            _log.warning("without a leader: %s", _named(lost))
        if unclean:
            _log.warning("unclean leaders, records may be lost: %s", _named(unclean))
        if found:
            _log.info("led again: %s", _named(found))


def _log_node(node_id: int, before: BrokerRegistration | None, after: BrokerRegistration | None) -> None:
    if after is None:
        _log.info("node %d is unregistered", node_id)
    elif after.fenced and before is not None and not before.fenced:
        if before.in_controlled_shutdown:
            _log.info("node %d has handed over its partitions, and stops", node_id)
        else:
            _log.warning("node %d is fenced: others lead until it is back", node_id)
    elif not after.fenced and (before is None or before.fenced):
        _log.info("node %d is unfenced", node_id)


def _changes(
    before: MetadataImage, after: MetadataImage, delta: MetadataDelta
) -> Iterator[tuple[str, PartitionRegistration, PartitionRegistration]]:
    """Yield name, former and present state of the partitions that existed before and have changed."""
    for topic_id, indexes in delta.changed_partitions.items():
        former, topic = before.topics_by_id.get(topic_id), after.topics_by_id[topic_id]
        if former is None:
            continue
        for index in sorted(indexes):
            if index < len(former.partitions):
                yield f"{topic.name}-{index}", former.partitions[index], topic.partitions[index]


def _is_newly_recovering(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    return (
        after.recovery_state is LeaderRecoveryState.RECOVERING
        and after.leader_epoch > before.leader_epoch
        and after.leader not in {before.leader, *before.isr, *before.elr, *before.last_known_elr, -1}
    )


def _named(partitions: list[str]) -> str:
    more = len(partitions) - NAMED
    return ", ".join(partitions[:NAMED]) + (f" and {more} more" if more > 0 else "")


class ConfigWarnings:
    """Logs a line when a configuration without effect is set, from `image` on.

    The response of the API has no room for a warning, and a refusal would break clients that set everything
    that Kafka knows.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for resource in sorted(delta.changed_configs):
            if resource[0] == ConfigResourceType.TOPIC and resource[1] in INTERNAL_TOPICS:
                continue  # The broker itself sets those.
            before = self._image.configs.get(resource, {})
            for name, value in image.configs.get(resource, {}).items():
                definition = find_config(resource[0], name) if before.get(name) != value else None
                if definition is not None and (line := warning(definition)):
                    _log.warning("%s: %s", _owner(resource), line)
        self._image = image


def _owner(resource: ConfigResource) -> str:
    kind, name = resource
    if kind in {ConfigResourceType.TOPIC, ConfigResourceType.GROUP}:
        return f"{'topic' if kind == ConfigResourceType.TOPIC else 'group'} `{name}`"
    return f"node {name}" if name else "all nodes"
