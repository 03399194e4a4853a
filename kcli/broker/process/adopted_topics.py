"""`broker start --adopt`: registers the topics that a node's log directories hold and the metadata lacks.

Such a directory was copied from another broker. Its name and its `partition.metadata` identify the topic.
Without `--adopt` it ends the start (`forgotten_topics`), or if it has no segments is renamed as a stray.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.config.group_definitions import group_topic_configs
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.topics import GROUP_METADATA_TOPIC, METADATA_TOPIC
from kcli.storage.checkpoints import CheckpointError, read_partition_metadata
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.controller.controller import Controller
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.node.broker import Broker

_log = logging.getLogger(__name__)


class UnknownTopic(NamedTuple):
    """A topic on disk: `partitions` is its highest number plus one, `present` the number of partitions."""

    name: str
    topic_id: bytes
    partitions: int
    present: int


def unknown_topics(log_dirs: Iterable[str], image: MetadataImage) -> list[UnknownTopic]:
    """Return the topics in these directories whose name and id `image` does not have, sorted by name."""
    found: dict[str, UnknownTopic] = {}
    for log_dir in log_dirs:
        for name in os.listdir(log_dir):
            parsed = parse_replica_directory(name)
            if parsed is None or parsed.suffix or parsed.topic_partition.topic == METADATA_TOPIC:
                continue
            topic, partition = parsed.topic_partition
            if topic in image.topics:
                continue
            topic_id = _topic_id(f"{log_dir}/{name}")
            if topic_id is None or topic_id in image.topics_by_id:
                continue
            known = found.get(topic, UnknownTopic(topic, topic_id, 0, 0))
            if known.topic_id != topic_id:
                _log.warning("`%s` is found with two topic ids: only the first one is adopted", topic)
                continue
            found[topic] = known._replace(
                partitions=max(known.partitions, partition + 1), present=known.present + 1
            )
    return sorted(found.values())


def _topic_id(directory: str) -> bytes | None:
    try:
        return read_partition_metadata(directory)
    except (CheckpointError, OSError) as error:
        _log.warning("cannot adopt `%s`: %s", directory, error)
        return None


def adopt_topics(controller: Controller, config: BrokerConfig, log_dirs: Iterable[str]) -> None:
    """Register every unknown topic in a node's directories, with this node as the only replica.

    `__consumer_offsets` gets the configuration of a new one: retention would empty it otherwise. If
    partitions of it are missing, it gets as many as a new one, because the partition of a group depends on
    their number.
    """
    for topic in unknown_topics(log_dirs, controller.image):
        partitions, configs = topic.partitions, dict[str, str]()
        if topic.name == GROUP_METADATA_TOPIC:
            if topic.present < partitions:
                partitions = max(partitions, config.offsets_topic_num_partitions)
            configs = group_topic_configs(config)
        try:
            controller.adopt_topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=partitions,
                node_id=config.node_id,
                configs=configs,
            )
            _log.info("adopted topic `%s` with %d partitions", topic.name, partitions)
        except KafkaError as error:
            _log.warning("cannot adopt topic `%s`: %s", topic.name, error.message)


def skip_adopted_producers(controller: Controller, broker: Broker) -> None:
    """Reserve the producer ids in a node's loaded logs: a new producer with one of them would be refused."""
    known = [producer_id for log in broker.log_manager for producer_id in log.producer_state.producers]
    if known:
        controller.skip_producer_ids(node_id=broker.node_id, broker_epoch=broker.epoch, first=max(known) + 1)
