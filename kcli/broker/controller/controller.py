"""Controller: the only writer of metadata. It decides, appends to the log, applies, publishes.

Every method is one event and runs to its end without a pause, so nothing can come between reading the image
and writing the decision. When a method returns, its decision is on the disk, in the image, and published. An
append that fails leaves the image as it was.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kcli.broker.config.broker_definitions import ControllerSettings
from kcli.broker.controller import (
    cluster_control,
    configuration_control,
    directory_control,
    election_control,
    feature_control,
    heartbeat_control,
    isr_control,
    replication_control,
)
from kcli.broker.controller import producer_ids as producer_id_control
from kcli.broker.controller.election_control import PeriodicElections
from kcli.broker.controller.feature_control import MIN_ISR
from kcli.broker.controller.heartbeat_control import BrokerHeartbeatReply, Heartbeat, Sessions
from kcli.broker.controller.partition_change import PartitionDecisions
from kcli.broker.controller.result import MAX_RECORDS_PER_OPERATION, ControllerResult
from kcli.broker.metadata.metadata_publisher import MetadataPublisher
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import random_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from random import Random

    from kcli.broker.config.config_entries import ConfigChange
    from kcli.broker.controller.client_quota_control import QuotaAlteration
    from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
    from kcli.broker.controller.directory_control import DirectoryAssignment
    from kcli.broker.controller.election_control import ElectionType
    from kcli.broker.controller.feature_control import FeatureUpdate
    from kcli.broker.controller.producer_ids import ProducerIdBlock
    from kcli.broker.controller.quorum_view import QuorumView
    from kcli.broker.controller.reassignment_control import Reassignment
    from kcli.broker.controller.replication_control import NewPartitions, NewTopic, TopicDefaults
    from kcli.broker.controller.scram_control import ScramDeletion, ScramUpsertion
    from kcli.broker.metadata.metadata_image import ConfigResource, MetadataImage, TopicImage
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kcli.protocol.topics import TopicPartition
    from kcli.security.acl import AclEntry, AclFilter

R = TypeVar("R")

_DEFAULT_SETTINGS = ControllerSettings()


class ControllerLog(Protocol):
    """The metadata log as the controller on node `node_id` uses it."""

    @property
    def node_id(self) -> int: ...

    @property
    def epoch(self) -> int:
        """The epoch of the newest batch."""

    @property
    def end_offset(self) -> int:
        """The next offset."""

    def copy_ends(self) -> Mapping[int, int]:
        """Return the next offset of each reachable copy, by node."""

    def compact(self, image: MetadataImage) -> None:
        """Replace the log by a snapshot of `image`, its whole content, if it is long."""

    def begin_epoch(self) -> int:
        """Begin the next epoch."""

    def append(self, records: Sequence[MetadataRecord | SecurityRecord], metadata_version: int) -> int:
        """Write one batch durably, at a level of `metadata.version`; return its last record's offset."""


class Controller:
    """The controller of a cluster, from `begin_epoch` on."""

    def __init__(
        self,
        log: ControllerLog,
        image: MetadataImage,
        *,
        random: Random,
        topic_defaults: Mapping[str, Any] = MappingProxyType({}),
        settings: ControllerSettings = _DEFAULT_SETTINGS,
        publisher: MetadataPublisher | None = None,
    ) -> None:
        self.image = image
        self.node_id = log.node_id
        self.settings = settings
        self._log = log
        self._random = random
        self.new_topic_id: Callable[[], bytes] = random_uuid
        self.check_room: Callable[[int, int], None] = lambda logs, pending: None
        """Raises `KafkaError` if there is no room for more logs beside those that are pending."""
        self._topic_defaults = topic_defaults
        self._sessions = Sessions()
        self._elections = PeriodicElections()
        self._now_ms = 0
        self.publisher = publisher or MetadataPublisher()

    def commit(self, result: ControllerResult[R]) -> R:
        """Write a decision and return its response; raise `KafkaError` if it cannot be written."""
        for first in range(0, len(result.records), MAX_RECORDS_PER_OPERATION):
            # A user's request is one batch; only brokers that come and go can make several.
            self._append(result.records[first : first + MAX_RECORDS_PER_OPERATION])
        return result.response

    def _append(self, records: Sequence[MetadataRecord | SecurityRecord]) -> None:
        try:
            last_offset = self._log.append(records, self.image.metadata_version)
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"cannot write the metadata log: {error.strerror}"
            ) from error
        self.image, delta = apply(self.image, records, last_offset=last_offset, epoch=self._log.epoch)
        if delta.changed_configs:
            self._elections.unclean_soon()
        self.publisher.publish(self.image, delta)

    def begin_epoch(self) -> None:
        """Begin an epoch of the log, and finalize the features of this program."""
        self._log.compact(self.image)
        self._log.begin_epoch()
        # The first record of the epoch took an offset; broker epochs are offsets.
        self.image, _ = apply(self.image, (), last_offset=self._log.end_offset - 1, epoch=self._log.epoch)
        self._sessions, self._elections = Sessions(), PeriodicElections()
        self.commit(feature_control.finalize_features(self.image, min_isr=self._static_min_isr))

    def register_broker(self, request: BrokerRegistrationRequest) -> int:
        """Register a starting node, fenced; return its broker epoch. Its directories' lock guards its id."""
        former = self.image.brokers.get(request.node_id)
        if former is not None and former.incarnation != request.incarnation:
            self._sessions.forget(request.node_id)
        features = feature_control.SUPPORTED_FEATURES
        return self.commit(cluster_control.register_broker(self._decisions(), request, features=features))

    def nodes_went_down(self, *, returning: Collection[int]) -> None:
        """Note that every node went down; those not `returning` leave the ISRs. Raises `KafkaError`."""
        self.commit(cluster_control.all_went_down(PartitionDecisions(self.image)))
        for node_id in self.image.brokers.keys() - set(returning):
            leaving = cluster_control.leave_partitions(PartitionDecisions(self.image), node_id)
            self.commit(ControllerResult(tuple(leaving), None))

    def nodes_came_up(self, epochs: Mapping[int, int], defaults: Mapping[str, Any]) -> None:
        """Let started nodes lead, by id and epoch; `defaults` as `topic_defaults`. Raises `KafkaError`."""
        self.commit(cluster_control.all_came_up(PartitionDecisions(self.image, defaults), epochs=epochs))

    def unfence_broker(self, *, node_id: int, epoch: int) -> None:
        """Let a caught-up node lead."""
        self.commit(cluster_control.unfence_broker(self._decisions(), node_id=node_id, epoch=epoch))

    def fence_broker(self, *, node_id: int, epoch: int) -> None:
        """Fence a node that is gone."""
        self.commit(cluster_control.fence_broker(self._decisions(), node_id=node_id, epoch=epoch))
        self._sessions.fenced(node_id)

    def unregister_broker(self, *, node_id: int, only_fenced: bool = False) -> None:
        """Forget a node; raise `KafkaError` BROKER_ID_NOT_REGISTERED if it is unknown."""
        decision = cluster_control.unregister_broker(
            self._decisions(), node_id=node_id, only_fenced=only_fenced
        )
        self.commit(decision)
        self._sessions.forget(node_id)

    def heartbeat(
        self, heartbeat: Heartbeat, *, offline_dirs: Collection[bytes] = (), now_ms: int
    ) -> BrokerHeartbeatReply:
        """Note a heartbeat and return the node's state. `offline_dirs` are the ids of failed directories.

        Raises `KafkaError` BROKER_ID_NOT_REGISTERED and STALE_BROKER_EPOCH: the node must register again.
        """
        self._now_ms = max(self._now_ms, now_ms)
        node_id, epoch, applied_offset = heartbeat.node_id, heartbeat.epoch, heartbeat.applied_offset
        is_level = applied_offset >= self.image.offset
        broker = self.image.brokers.get(node_id)
        if broker is not None and broker.has_lost_all(offline_dirs):
            heartbeat = replace(heartbeat, want_fence=True)  # Without any directory it can serve nothing.
        state = self.commit(heartbeat_control.decide(self._sessions, self._decisions(), heartbeat))
        self._sessions.heard(node_id, applied_offset=applied_offset, is_level=is_level, now_ms=now_ms)
        self._sessions.became(node_id, state, end_offset=self.image.offset)
        self.commit(
            directory_control.lose_directories(
                self._decisions(), node_id=node_id, epoch=epoch, offline=offline_dirs
            )
        )
        return BrokerHeartbeatReply.to(state, is_caught_up=applied_offset >= epoch)

    def assign_directories(
        self, *, node_id: int, epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> list[KafkaError | None]:
        """Note the log directories of a node's replicas; return an error or None for each."""
        return self.commit(
            directory_control.assign_directories(
                self._decisions(), node_id=node_id, epoch=epoch, assignments=assignments
            )
        )

    def quorum(self) -> QuorumView:
        """Return the copies of the metadata log, and how far each node has followed it."""
        from kcli.broker.controller.quorum_view import quorum_view  # Only tools ask.

        return quorum_view(
            self.image, self._sessions, self._log.copy_ends(), leader_id=self.node_id, now_ms=self._now_ms
        )

    def tick(self, now_ms: int) -> None:
        """Fence silent nodes, one decision each, and elect leaders where that is due. Call it often."""
        self._now_ms = max(self._now_ms, now_ms)
        self._sessions.assume(self.image, now_ms=now_ms)
        timeout_ms = self.settings.broker_session_timeout_ms
        while (node_id := self._sessions.stale(self.image, now_ms=now_ms, timeout_ms=timeout_ms)) is not None:
            self.fence_broker(node_id=node_id, epoch=self.image.brokers[node_id].epoch)
        if self._elections.rebalance_is_due(now_ms, self.settings):
            threshold = self.settings.leader_imbalance_percentage
            if self.commit(election_control.rebalance(self._decisions(), percentage=threshold)):
                self._elections.rebalance_soon()
        if self._elections.unclean_is_due(now_ms, self.settings) and self.commit(
            election_control.elect_unclean(self._decisions())
        ):
            self._elections.unclean_soon()

    @property
    def first_session_end_ms(self) -> int | None:
        """When `tick` fences the first node if no heartbeat comes, None without any session."""
        return self._sessions.first_end(self.image, timeout_ms=self.settings.broker_session_timeout_ms)

    @property
    def _static_min_isr(self) -> int:
        return int(self._topic_defaults.get(MIN_ISR, 1))

    def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change feature levels, all or none. Raises `KafkaError` INVALID_UPDATE_VERSION."""
        result = feature_control.update_features(self.image, updates, min_isr=self._static_min_isr)
        self._commit_unless(validate_only, result)

    def allocate_producer_ids(self, *, node_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Give a node the next block of producer ids."""
        return self.commit(
            producer_id_control.allocate_producer_ids(self.image, node_id=node_id, broker_epoch=broker_epoch)
        )

    def skip_producer_ids(self, *, node_id: int, broker_epoch: int, first: int) -> None:
        """Allocate no producer id below `first` from now on."""
        self.commit(
            producer_id_control.skip_producer_ids(
                self.image, node_id=node_id, broker_epoch=broker_epoch, first=first
            )
        )

    def create_topics(
        self, topics: Sequence[NewTopic], *, defaults: TopicDefaults, validate_only: bool = False
    ) -> list[TopicImage | KafkaError]:
        """Create topics; return the topic or an error for each. `validate_only` changes nothing."""
        return self._commit_unless(
            validate_only,
            replication_control.create_topics(
                self.image,
                topics,
                defaults=defaults,
                random=self._random,
                new_topic_id=self.new_topic_id,
                check_room=self.check_room,
            ),
        )

    def delete_topics(self, topic_ids: Iterable[bytes]) -> list[TopicImage | KafkaError]:
        """Delete topics by id; return the former topic or an error for each."""
        return self.commit(replication_control.delete_topics(self.image, topic_ids))

    def create_partitions(
        self, wanted: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[int | KafkaError]:
        """Add partitions; return the number added or an error for each."""
        decision = replication_control.create_partitions(self.image, wanted, check_room=self.check_room)
        return self._commit_unless(validate_only, decision)

    def adopt_topic(
        self, *, name: str, topic_id: bytes, partitions: int, node_id: int, configs: Mapping[str, str]
    ) -> TopicImage:
        """Register a topic whose data lies in a node's directories."""
        return self.commit(
            replication_control.adopt_topic(
                self.image,
                name=name,
                topic_id=topic_id,
                partitions=partitions,
                node_id=node_id,
                configs=configs,
            )
        )

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Decide the ISR changes of a leader."""
        return self.commit(isr_control.alter_partition(self._decisions(), request))

    def elect_leaders(
        self, partitions: Sequence[TopicPartition], *, type: ElectionType
    ) -> list[KafkaError | None]:
        """Elect leaders of partitions; return an error or None for each."""
        return self.commit(election_control.elect_leaders(self._decisions(), partitions, type=type))

    def alter_reassignments(
        self, wanted: Sequence[Reassignment], *, allow_replication_factor_change: bool = True
    ) -> list[KafkaError | None]:
        """Begin, replace and cancel reassignments; return an error or None for each."""
        from kcli.broker.controller import reassignment_control  # Reassignments are rare.

        return self.commit(
            reassignment_control.alter_reassignments(
                self._decisions(), wanted, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    def _decisions(self) -> PartitionDecisions:
        return PartitionDecisions(self.image, self._topic_defaults)

    def incremental_alter_configs(
        self,
        changes: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]],
        *,
        defaults: TopicDefaults,
        validate_only: bool = False,
    ) -> list[KafkaError | None]:
        """Change single values of resources; return an error or None for each."""
        return self._commit_unless(
            validate_only,
            configuration_control.incremental_alter_configs(
                self.image, changes, defaults=defaults.configs, groups=defaults.groups
            ),
        )

    def alter_configs(
        self,
        changes: Sequence[tuple[ConfigResource, Mapping[str, str]]],
        *,
        defaults: TopicDefaults,
        validate_only: bool = False,
    ) -> list[KafkaError | None]:
        """Replace the configurations of resources; return an error or None for each."""
        return self._commit_unless(
            validate_only,
            configuration_control.alter_configs(
                self.image, changes, defaults=defaults.configs, groups=defaults.groups
            ),
        )

    def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Set and remove client quotas; return an error or None for each."""
        from kcli.broker.controller import client_quota_control  # Most clusters have no quotas.

        return self._commit_unless(
            validate_only, client_quota_control.alter_client_quotas(self.image, alterations)
        )

    def alter_user_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, KafkaError | None]:
        """Set and remove SCRAM credentials; return an error or None for each user."""
        from kcli.broker.controller import scram_control  # Most clusters have no users.

        return self.commit(scram_control.alter_user_scram_credentials(self.image, deletions, upsertions))

    def create_acls(self, entries: Sequence[AclEntry]) -> list[KafkaError | None]:
        """Add access control entries; return an error or None for each."""
        from kcli.broker.controller import acl_control  # Most clusters have no authorizer.

        return self.commit(acl_control.create_acls(self.image, entries, new_id=random_uuid))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclEntry] | KafkaError]:
        """Remove the access control entries that filters find; return them or an error for each filter."""
        from kcli.broker.controller import acl_control  # Most clusters have no authorizer.

        return self.commit(acl_control.delete_acls(self.image, filters))

    def _commit_unless(self, validate_only: bool, result: ControllerResult[R]) -> R:
        return result.response if validate_only else self.commit(result)
