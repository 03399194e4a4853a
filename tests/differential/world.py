"""The state that both brokers are brought to: topics, records, groups, quotas.

A world has names of its own, so that another one begins as a new one did, whatever happened in the last.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.differential.batches import BatchParts, RecordParts, sound_batch
from tests.differential.sides import NoResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.differential.sides import Pair

MARKER = "differential-marker"
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {}),
    "single": (1, {}),
    "empty": (2, {}),
    "trimmed": (1, {}),
    "compact": (1, {"cleanup.policy": "compact"}),
    "appended": (1, {"message.timestamp.type": "LogAppendTime"}),
    "gzipped": (1, {"compression.type": "gzip"}),
    "strict": (1, {"max.message.bytes": "2000", "message.timestamp.after.max.ms": "3600000"}),
    "changed": (2, {"retention.ms": "3600000"}),
    "deleted-a": (1, {}),
    "deleted-b": (2, {}),
}
"""Partitions and configurations of each topic. Requests that delete topics name `deleted-…` and new ones."""

FILLED = ("plain", "single", "trimmed", "compact", "appended", "gzipped", "changed")
LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
TRANSACTIONAL_IDS = ("tx-a", "tx-b", "tx-c", "tx-new")
"""All but the last have a producer in every world."""

NEW_GROUPS = 8
"""Groups that requests may create."""

SESSION_MS = 1_800_000
REBALANCE_MS = 500


def until(pair: Pair, request: object, version: int, holds: Callable[[Any], bool]) -> None:
    """Ask both until what they answer holds."""
    for _ in range(5000):
        responses = pair.ask(request, version)
        if all(not isinstance(each, NoResponse) and holds(each) for each in responses):
            return
    raise AssertionError(f"never settled: {request} {responses}")


def prepare(pair: Pair) -> None:
    """Note which topics are there before any world, to leave them alone; wait for the first producer id."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    until(pair, request, 4, lambda response: not response.error_code and response.producer_id > 0)
    for response in pair.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12):
        pair.foreign_topics |= {topic.name for topic in response.topics} | {
            MARKER,
            "__consumer_offsets",
            "__transaction_state",
        }


class World:
    """The state of both brokers, and what requests need to know of it."""

    def __init__(self, pair: Pair, run: str, number: int, seed: int) -> None:
        self.pair = pair
        self.prefix = f"d{run}-{number:04d}-"
        self.topic_ids: dict[str, bytes] = {}
        self.members: list[str] = []
        self.producers: dict[str, tuple[int, int]] = {}
        """The newest producer id, as a symbol, and epoch of each transactional id."""
        self.wanted: list[Any] = []
        """Requests that should come next."""
        self.is_spent = False
        self.stable = self.group("stable")
        self.modern = self.group("modern")
        self.chance = Random(f"{seed}/{number}")
        self._marker = 0

    def topic(self, name: str) -> str:
        """The name of a topic of this world."""
        return self.prefix + name

    group = transactional_id = topic

    def is_foreign(self, name: str) -> bool:
        """Whether a name is that of a topic or group of another world or another user of the brokers."""
        return not name.startswith(self.prefix)

    def build(self) -> None:
        """Create everything on both brokers."""
        self._create_topics()
        self._assign_at_once()
        self.settle()
        self.learn_topic_ids()
        self._produce()
        self._commit()
        self._begin_transactions()
        self._join()
        self._set_quotas()

    def settle(self) -> None:
        """Wait until both brokers act on all changes of metadata so far.

        A broker of Apache Kafka applies one delta after another: the second marker can only be seen after the
        delta with the first one, and all before it, has reached every part of the broker.
        """
        for _ in range(2):
            self._marker = int(time.time() * 1000) if not self._marker else self._marker + 1
            mark = AlterableConfig(name="retention.ms", config_operation=0, value=str(self._marker))
            resource = AlterConfigsResource(resource_type=2, resource_name=MARKER, configs=[mark])
            self.pair.set_up(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
            keys = DescribeConfigsResource(
                resource_type=2, resource_name=MARKER, configuration_keys=["retention.ms"]
            )
            request = DescribeConfigsRequest(resources=[keys])
            until(
                self.pair,
                request,
                4,
                lambda response: response.results[0].configs[0].value == str(self._marker),
            )

    def learn_topic_ids(self) -> None:
        """Give the same symbol to a topic's id on either broker."""
        responses = self.pair.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        theirs, ours = ({topic.name: topic.topic_id for topic in each.topics} for each in responses)
        for name in theirs.keys() & ours.keys():
            symbol = theirs[name]
            if symbol not in self.pair.apache.ids:
                symbol = self.pair.new_topic_symbol()
                self.pair.apache.learn(symbol, theirs[name])
                self.pair.kcli.learn(symbol, self.pair.kcli.ids.get(ours[name], ours[name]))
            if name not in self.pair.foreign_topics:
                self.topic_ids[name] = symbol

    def await_created(self, names: Iterable[str]) -> None:
        """Wait for topics whose creation a Metadata request has asked for, which has its response earlier."""
        names = set(names)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        until(self.pair, request, 12, lambda response: names <= {topic.name for topic in response.topics})
        self.settle()
        self.learn_topic_ids()

    def settle_group(self, group_id: str) -> None:
        """Wait until a classic group waits for no member: brokers' timers do not end at the same time.

        A group that waits for longer than any request asks for ends this world.
        """
        request = DescribeGroupsRequest(groups=[group_id])
        end = time.monotonic() + 4 * REBALANCE_MS / 1000
        while time.monotonic() < end:
            states = {response.groups[0].group_state for response in self.pair.ask(request, 5)}
            if not states & {"PreparingRebalance", "CompletingRebalance"}:
                return
        self.is_spent = True

    def delete(self) -> None:
        """Delete the topics, also those that only one of the brokers has."""
        responses = self.pair.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        names = {topic.name for response in responses for topic in response.topics} - self.pair.foreign_topics
        self.pair.ask(DeleteTopicsRequest(topic_names=sorted(names), timeout_ms=5000), 5)
        self._alter_quotas(remove=True)

    def _create_topics(self) -> None:
        marker = CreatableTopic(
            name=MARKER, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        self.pair.ask(CreateTopicsRequest(topics=[marker], timeout_ms=5000), 7)
        resource = DescribeConfigsResource(
            resource_type=2, resource_name=MARKER, configuration_keys=["retention.ms"]
        )
        until(
            self.pair,
            DescribeConfigsRequest(resources=[resource]),
            4,
            lambda response: not response.results[0].error_code,
        )
        topics = [
            CreatableTopic(
                name=self.topic(name),
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, (partitions, configs) in TOPICS.items()
        ]
        self.pair.set_up(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)

    def _assign_at_once(self) -> None:
        """Let groups of the consumer protocol compute assignments at once, not after an interval."""
        config = AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
        names = ["empty", "other", "stable", "modern", *(f"new-{number}" for number in range(NEW_GROUPS))]
        resources = [
            AlterConfigsResource(resource_type=32, resource_name=self.group(name), configs=[config])
            for name in names
        ]
        self.pair.set_up(IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1)

    def _produce(self) -> None:
        now = int(time.time() * 1000) - 60_000
        for name in FILLED:
            for partition in range(TOPICS[name][0]):
                for number in range(4):
                    parts = sound_batch(self.chance)
                    batch = BatchParts(_keyed(parts.records[:20]), parts.codec, now + 1000 * number)
                    if name == "gzipped":
                        batch.codec = 0
                    self.pair.set_up(produce(self.topic(name), partition, batch.encode()), 9)
        trimmed = DeleteRecordsPartition(partition_index=0, offset=3)
        topic = DeleteRecordsTopic(name=self.topic("trimmed"), partitions=[trimmed])
        self.pair.set_up(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2)

    def _commit(self) -> None:
        for kind in ("empty", "other"):
            group = self.group(kind)
            until(
                self.pair,
                FindCoordinatorRequest(key=group, key_type=0),
                3,
                lambda response: not response.error_code,
            )
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=index + 1, committed_metadata=f"note {index}"
                )
                for index in range(2)
            ]
            topic = OffsetCommitRequestTopic(name=self.topic("plain"), partitions=partitions)
            until(
                self.pair,
                OffsetCommitRequest(group_id=group, topics=[topic]),
                8,
                lambda response: response.topics[0].partitions[0].error_code not in LOADING,
            )

    def _begin_transactions(self) -> None:
        for name in TRANSACTIONAL_IDS:
            transactional_id = self.transactional_id(name)
            find = FindCoordinatorRequest(key=transactional_id, key_type=1)
            until(self.pair, find, 3, lambda response: not response.error_code)
            until(
                self.pair,
                DescribeTransactionsRequest(transactional_ids=[transactional_id]),
                0,
                lambda response: response.transaction_states[0].error_code not in LOADING,
            )
        for name in TRANSACTIONAL_IDS[:-1]:
            transactional_id = self.transactional_id(name)
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
            response = self.pair.set_up(request, 5)
            self.producers[transactional_id] = (response.producer_id, response.producer_epoch)

    def settle_transaction(self, transactional_id: str) -> None:
        """Wait until the partitions of a transaction have their markers."""
        if transactional_id.startswith(self.prefix):
            until(
                self.pair,
                DescribeTransactionsRequest(transactional_ids=[transactional_id]),
                0,
                lambda response: not response.transaction_states[0].transaction_state.startswith("Prepare"),
            )

    def _join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")
        for attempt in range(10):
            self.stable = self.group(f"stable-{attempt}")
            request = JoinGroupRequest(
                group_id=self.stable,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            )
            joined = self.pair.set_up(request, 3)
            assignment = SyncGroupRequestAssignment(
                member_id=joined.member_id, assignment=b"\0\1\0\0\0\0\0\0\0\0"
            )
            sync = SyncGroupRequest(
                group_id=self.stable, generation_id=1, member_id=joined.member_id, assignments=[assignment]
            )
            # On a busy machine one of the brokers may have given up the member meanwhile.
            if not any(response.error_code for response in self.pair.ask(sync, 3)):
                break
        self.members.append(joined.member_id)
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=self.modern,
            member_id="symbolic-member-000000",
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self.topic("plain")],
            topic_partitions=[],
        )
        self.pair.set_up(heartbeat, 1)
        self.members.append("symbolic-member-000000")

    def _set_quotas(self) -> None:
        self._alter_quotas(remove=False)

    def _alter_quotas(self, *, remove: bool) -> None:
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=self.topic(name)) for kind, name in entity],
                ops=[OpData(key="producer_byte_rate", value=1e6, remove=remove)],
            )
            for entity in ([("user", "ann")], [("client-id", "app")], [("user", "ann"), ("client-id", "app")])
        ]
        self.pair.set_up(AlterClientQuotasRequest(entries=entries, validate_only=False), 1)


def _keyed(records: list[RecordParts]) -> list[RecordParts]:
    return [RecordParts(0, number, b"key-%d" % number, record.value) for number, record in enumerate(records)]


def produce(topic: str, partition: int, records: bytes | None, *, acks: int = -1) -> ProduceRequest:
    """A request with records for one partition."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
