"""FakeBrokers: brokers in memory that speak the protocol over trio's memory streams and follow scripts.

They answer ApiVersions, Metadata and FindCoordinator, and keep a log per partition for Produce (with the
sequence checks of a real broker) and Fetch. `script` replaces these responses, and alone answers requests
about groups; `requests` holds what was received.
"""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from trio.testing import memory_stream_pair

from kcli.client.client import Client, connect
from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.metadata import Node
from kcli.protocol.frames import FrameReader, encode_response, parse_request_header
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kcli.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kcli.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kcli.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_producers import DescribeProducersRequest
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from kcli.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kcli.protocol.schema.declaration import codec, message_info
from tests.client.fake_partition import FakePartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kcli.client.config import ClientConfig

REQUESTS = {
    message_info(request).key: request
    for request in (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        AlterPartitionReassignmentsRequest,
        AlterReplicaLogDirsRequest,
        ApiVersionsRequest,
        ConsumerGroupDescribeRequest,
        ConsumerGroupHeartbeatRequest,
        DeleteGroupsRequest,
        DescribeGroupsRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ElectLeadersRequest,
        EndTxnRequest,
        FetchRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        InitProducerIdRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        ListConfigResourcesRequest,
        ListGroupsRequest,
        ListOffsetsRequest,
        ListPartitionReassignmentsRequest,
        ListTransactionsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetDeleteRequest,
        OffsetFetchRequest,
        ProduceRequest,
        SyncGroupRequest,
        TxnOffsetCommitRequest,
        UnregisterBrokerRequest,
        WriteTxnMarkersRequest,
    )
}


class Disconnect(Exception):
    """Raised by a script: the broker closes the connection instead of answering."""


class NoAnswer(Exception):
    """Raised by a script: the broker answers nothing more on this connection."""


class Received(NamedTuple):
    """One request that a broker received."""

    node_id: int
    version: int
    request: Any


class FakeBrokers:
    """Brokers 1 to `nodes`, and topics by name with their partitions spread over them."""

    def __init__(
        self, nursery: trio.Nursery, *, nodes: int = 1, topics: Mapping[str, int] | None = None
    ) -> None:
        self.nodes = {number: Node(number, f"broker-{number}", 9092) for number in range(1, nodes + 1)}
        self.topics: dict[str, list[FakePartition]] = {}
        self.requests: list[Received] = []
        self.down: set[str] = set()
        self.max_versions: dict[int, int] = {}
        self.features: dict[str, int] = {}
        """The finalized levels."""
        self.features_epoch = 1
        self.hidden: set[type[Any]] = set()
        self.opened: list[str] = []
        self.open_seconds = 0.0
        self.next_producer_id = 1000
        self.coordinators: dict[str, int] = {}
        self._nursery = nursery
        self._streams: dict[int, list[trio.abc.Stream]] = defaultdict(list)
        self._scripts: dict[type[Any], deque[Any]] = defaultdict(deque)
        for name, count in (topics or {}).items():
            self.add_topic(name, count)

    def add_topic(self, name: str, count: int) -> None:
        """Create a topic."""
        self.topics[name] = [FakePartition(1 + index % len(self.nodes)) for index in range(count)]

    def script(self, request_class: type[Any], *answers: Any) -> None:
        """Answer the next requests of a class by `answers`: messages, exceptions or functions.

        A function gets (node_id, request, version) and returns a response or an awaitable of one; None leaves
        the request to the broker's own response.
        """
        self._scripts[request_class].extend(answers)

    def received(self, request_class: type[Any]) -> list[Any]:
        """Return the received requests of one class."""
        return [entry.request for entry in self.requests if isinstance(entry.request, request_class)]

    def disconnect(self, node_id: int) -> None:
        """Close every connection to a broker."""
        for stream in self._streams.pop(node_id, []):
            stream.send_stream.close()  # type: ignore[attr-defined]
            stream.receive_stream.close()  # type: ignore[attr-defined]

    async def open_stream(self, node: Node, config: ClientConfig) -> trio.abc.Stream:
        """Replaces TCP: hosts are `broker-<id>`; any other host refuses, and so do those in `down`."""
        await trio.sleep(self.open_seconds)
        self.opened.append(node.host)
        found = [number for number, known in self.nodes.items() if known.host == node.host]
        if node.host in self.down or not found:
            raise Unreachable(f"cannot connect to {node.address}: connection refused")
        ours, theirs = memory_stream_pair()
        self._streams[found[0]].append(theirs)
        self._nursery.start_soon(self._serve, found[0], theirs)
        return ours

    async def _serve(self, node_id: int, stream: trio.abc.Stream) -> None:
        reader = FrameReader(10**8)
        try:
            while data := await stream.receive_some():
                reader.feed(data)
                for frame in reader:
                    await self._answer(node_id, stream, frame)
        except (Disconnect, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, node_id: int, stream: trio.abc.Stream, frame: bytearray) -> None:
        header, body = parse_request_header(frame)
        request_class = REQUESTS[header.api_key]
        request, _ = codec(request_class, header.api_version).decode(frame, body)
        self.requests.append(Received(node_id, header.api_version, request))
        version = header.api_version
        try:
            answer = await self._scripted(node_id, request, version)
        except NoAnswer:
            await trio.sleep_forever()
        if answer is None:
            answer = getattr(self, f"_{request_class.__name__}")(node_id, request, version)
            if hasattr(answer, "__await__"):
                answer = await answer
        if answer is not None:
            if isinstance(answer, tuple):
                version, answer = answer
            await stream.send_all(encode_response(header.api_key, version, header.correlation_id, answer))

    async def _scripted(self, node_id: int, request: Any, version: int) -> Any:
        waiting = self._scripts[type(request)]
        if not waiting:
            return None
        answer = waiting.popleft()
        if callable(answer) and not isinstance(answer, type):
            answer = answer(node_id, request, version)
            if hasattr(answer, "__await__"):
                answer = await answer
        if isinstance(answer, Exception) or (isinstance(answer, type) and issubclass(answer, Exception)):
            raise answer
        return answer

    # --- a broker's own answers ------------------------------------------------------------------------

    def _ApiVersionsRequest(self, node_id: int, request: Any, version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=key,
                    min_version=message_info(cls).min_version,
                    max_version=self.max_versions.get(key, message_info(cls).max_version),
                )
                for key, cls in REQUESTS.items()
                if cls not in self.hidden
            ],
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.features.items()
            ],
            finalized_features_epoch=self.features_epoch,
        )

    def _MetadataRequest(self, node_id: int, request: MetadataRequest, version: int) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
                for node in self.nodes.values()
            ],
            cluster_id="fake",
            controller_id=1,
            topics=[self._described(name or "") for name in names],
        )

    def _described(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name, partitions=[])
        return MetadataResponseTopic(
            name=name,
            topic_id=self.topic_id(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=[partition.leader],
                    isr_nodes=[partition.leader],
                )
                for index, partition in enumerate(self.topics[name])
            ],
        )

    @staticmethod
    def topic_id(name: str) -> bytes:
        """Return a topic's id, derived from its name."""
        return name.encode()[:16].ljust(16, b"\x01")

    def _name(self, topic: Any) -> str:
        name = getattr(topic, "topic", "") or getattr(topic, "name", "")
        return name or next((known for known in self.topics if self.topic_id(known) == topic.topic_id), "")

    def _FindCoordinatorRequest(
        self, node_id: int, request: FindCoordinatorRequest, version: int
    ) -> FindCoordinatorResponse:
        if version < 4:
            node = self._coordinator(request.key)
            return FindCoordinatorResponse(node_id=node.node_id, host=node.host, port=node.port)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=self._coordinator(key).node_id,
                    host=self._coordinator(key).host,
                    port=9092,
                    error_message=None,
                )
                for key in request.coordinator_keys
            ]
        )

    def _coordinator(self, key: str) -> Node:
        return self.nodes[self.coordinators.get(key, 1)]

    def _InitProducerIdRequest(self, node_id: int, request: Any, version: int) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id - 1, producer_epoch=0)

    def _ProduceRequest(self, node_id: int, request: ProduceRequest, version: int) -> ProduceResponse | None:
        responses = []
        for topic in request.topic_data:
            name = self._name(topic)
            rows = []
            for data in topic.partition_data:
                partition = self.topics[name][data.index]
                code, base_offset = 6, -1
                if partition.leader == node_id:
                    assert data.records is not None
                    code, base_offset = partition.append(memoryview(data.records))
                rows.append(
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset)
                )
            responses.append(
                TopicProduceResponse(name=name, topic_id=self.topic_id(name), partition_responses=rows)
            )
        return ProduceResponse(responses=responses) if request.acks else None

    async def _FetchRequest(self, node_id: int, request: FetchRequest, version: int) -> FetchResponse:
        responses = self._fetched(request)
        if not any(row.records for topic in responses for row in topic.partitions):
            await trio.sleep(request.max_wait_ms / 1000)
            responses = self._fetched(request)
        return FetchResponse(responses=responses)

    def _fetched(self, request: FetchRequest) -> list[FetchableTopicResponse]:
        responses = []
        for topic in request.topics:
            name = self._name(topic)
            rows = [self.partition_data(name, row) for row in topic.partitions]
            responses.append(
                FetchableTopicResponse(
                    topic=name, topic_id=self.topic_id(name) if name else topic.topic_id, partitions=rows
                )
            )
        return responses

    def partition_data(self, name: str, row: FetchPartition) -> PartitionData:
        """Return a partition's part of a fetch response."""
        if name not in self.topics:
            return PartitionData(
                partition_index=row.partition, error_code=100, high_watermark=-1, records=b""
            )
        partition = self.topics[name][row.partition]
        code = 0 if partition.start_offset <= row.fetch_offset <= partition.end_offset else 1
        return PartitionData(
            partition_index=row.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            last_stable_offset=partition.end_offset,
            records=b"" if code else partition.read(row.fetch_offset),
        )

    def _ListOffsetsRequest(
        self, node_id: int, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                partition = self.topics[topic.name][row.partition_index]
                offset = partition.start_offset if row.timestamp == -2 else partition.end_offset
                rows.append(ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)


@asynccontextmanager
async def fake_cluster(
    config: ClientConfig | None = None,
    *,
    bootstrap: str = "broker-1",
    nodes: int = 1,
    topics: Mapping[str, int] | None = None,
) -> AsyncIterator[tuple[FakeBrokers, Client]]:
    """Brokers in memory and a client connected to them."""
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery, nodes=nodes, topics=topics)
        async with connect(bootstrap, config, open_stream=brokers.open_stream) as client:
            yield brokers, client
        nursery.cancel_scope.cancel()
