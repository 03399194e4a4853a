"""A controller to which things happen: nodes that come, go and fail, topics, moves, elections, time."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from kcli.broker.config.broker_definitions import ControllerSettings
from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.feature_control import FeatureUpdate, UpgradeType
from kcli.broker.controller.heartbeat_control import Heartbeat
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from tests.support.metadata import MemoryLog, broker, running_controller

DEFAULTS = TopicDefaults()


class World:
    """A controller, its log and a clock."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.controller = running_controller(0, log=self.log)
        self.controller.settings = ControllerSettings(leader_imbalance_check_interval_ms=7000)
        self.now_ms = 0
        self.incarnations = itertools.count()
        for node_id in (1, 2, 3):
            self.restart(node_id, clean=True)

    def perform(self, operation: tuple[object, ...]) -> None:
        """Do something; what is refused changes nothing."""
        before = len(self.log.batches)
        try:
            self._perform(operation)
        except KafkaError:
            assert len(self.log.batches) == before

    def _perform(self, operation: tuple[object, ...]) -> None:
        controller = self.controller
        match operation:
            case ("create", str(name), int(partitions), int(replicas)):
                controller.create_topics([NewTopic(name, partitions, replicas)], defaults=DEFAULTS)
            case ("delete", str(name)) if name in controller.image.topics:
                controller.delete_topics([controller.image.topics[name].topic_id])
            case ("grow", str(name), int(count)):
                controller.create_partitions([NewPartitions(name, count)])
            case ("config", str(name), str(key), int(value)):
                self.configure(name, key, value)
            case ("restart", int(node_id), bool(clean)):
                self.restart(node_id, clean=clean)
            case ("beat", int(node_id), int(lag)):
                self.beat(node_id, lag=lag)
            case ("stop", int(node_id)):
                self.beat(node_id, want_shutdown=True)
            case ("lose directory", int(node_id), int(which)):
                self.beat(node_id, offline_dirs=[directories(node_id)[which]])
            case ("unregister", int(node_id)):
                controller.unregister_broker(node_id=node_id)
            case ("move", str(name), replicas):
                target = tuple(replicas) if isinstance(replicas, list) else None
                controller.alter_reassignments([Reassignment(name, 0, target)])
            case ("elect", str(name), ElectionType() as type):
                controller.elect_leaders([(name, 0)], type=type)
            case ("in sync", str(name), list(isr)) if name in controller.image.topics:
                self.leader_asks(name, isr)
            case ("time", int(passed_ms)):
                self.now_ms += passed_ms
                controller.tick(self.now_ms)
            case ("eligible leaders", int(level)):
                type_ = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
                controller.update_features([FeatureUpdate("eligible.leader.replicas.version", level, type_)])
            case ("epoch",):
                controller.begin_epoch()

    def restart(self, node_id: int, *, clean: bool) -> None:
        incarnation = f"incarnation {next(self.incarnations):04d}".encode()
        self.controller.register_broker(
            BrokerRegistrationRequest(
                node_id=node_id,
                incarnation=incarnation,
                endpoints=broker(node_id).endpoints,
                directories=directories(node_id),
                had_clean_stop=clean,
            )
        )
        self.beat(node_id)

    def beat(
        self, node_id: int, *, lag: int = 0, offline_dirs: Collection[bytes] = (), **fields: object
    ) -> None:
        known = self.controller.image.brokers.get(node_id)
        self.controller.heartbeat(
            Heartbeat(
                node_id,
                known.epoch if known else 0,
                self.controller.image.offset - lag,
                **fields,  # type: ignore[arg-type]
            ),
            offline_dirs=offline_dirs,
            now_ms=self.now_ms,
        )

    def configure(self, name: str, key: str, value: int) -> None:
        if key == "unclean":
            change = ConfigChange("unclean.leader.election.enable", 0, "true" if value else "false")
        else:
            change = ConfigChange(key, 0 if value else 1, str(value))
        self.controller.incremental_alter_configs([((2, name), [change])], defaults=DEFAULTS)

    def leader_asks(self, name: str, isr: list[int]) -> None:
        topic = self.controller.image.topics[name]
        partition = topic.partitions[0]
        sender = self.controller.image.brokers.get(partition.leader)
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=isr,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=-1 if sender is None else sender.epoch,
            topics=[TopicData(topic_id=topic.topic_id, partitions=[data])],
        )
        self.controller.alter_partition(request)


def directories(node_id: int) -> list[bytes]:
    return [f"directory {node_id}-{index}   ".encode()[:16].ljust(16) for index in (0, 1)]
