"""A node in the test's own process: real logs, a real controller, and sockets on the loopback."""

from __future__ import annotations

import random
import select
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.producer_ids import ProducerIds
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.coordinator.group_service import group_runtime
from kcli.broker.coordinator.transaction.messages import DropMarkers, Markers, TransitionEnded
from kcli.broker.coordinator.transaction_service import transaction_runtime
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, Endpoint
from kcli.broker.network.apis import APIS
from kcli.broker.network.descriptors import Descriptors
from kcli.broker.network.inbox import ReceiveBuffers
from kcli.broker.network.quota_engine import QuotaLayer
from kcli.broker.network.request_engine import EngineLayers, RequestEngine
from kcli.broker.network.socket_server import (
    ConnectionQuotas,
    SocketServer,
    open_listening_sockets,
    parse_overrides,
)
from kcli.broker.replication.fetch_session import FetchSessionCache
from kcli.broker.replication.hosted_partitions import ReplicationContext
from kcli.broker.replication.leader_endpoint import LeaderEndPoint, LeaderEndPoints
from kcli.broker.replication.replica_manager import ReplicaManager
from kcli.broker.security.authorizer import Authorizer
from kcli.broker.security.listener_security import listener_security
from kcli.broker.security.tls_contexts import TlsContexts
from kcli.broker.transactions.marker_sender import MarkerSender
from kcli.broker.transactions.marker_writer import MarkerWriter
from kcli.broker.transactions.partition_adder import PartitionAdder
from kcli.broker.transactions.transaction_verifier import TransactionVerifier
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.purgatory import Purgatory
from kcli.broker.waiting.timer import Timer
from kcli.protocol.frames import RequestHeader, decode_response, encode_request
from kcli.protocol.schema.declaration import message_info
from kcli.storage.dirs.log_manager import LogManager
from tests.support.metadata import MemoryLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from kcli.broker.controller.directory_control import DirectoryAssignment
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage, TopicImage
    from kcli.broker.network.listener_security import ListenerSecurity
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

LISTENER = "PLAINTEXT"
NODE_ID = 1
START_MS = 1_700_000_000_000


class Node:
    """What handlers take for their broker."""

    def __init__(
        self,
        directory: Path,
        properties: dict[str, str] | None = None,
        *,
        log_dirs: Sequence[Path] | None = None,
    ) -> None:
        self.node_id = NODE_ID
        self.cluster_id = "test-cluster-id-000000"
        self.config = BrokerConfig.from_properties(properties or {})
        self.now_ms = START_MS
        self.image: MetadataImage = EMPTY_IMAGE
        self.epoch = -1
        self.known_controller_id = NODE_ID
        self.peers = LeaderEndPoints(lambda _: None)
        self.gate = PauseGate()
        self.timer = Timer()
        self.purgatory = Purgatory(self.timer)
        self.fetch_sessions = FetchSessionCache()
        self.log_manager = LogManager(
            [str(path) for path in log_dirs or (directory,)], node_id=NODE_ID, cluster_id=self.cluster_id,
            default_config=self.config.log_config({}),
        )  # fmt: skip
        self.log_manager.open(now_ms=self.now_ms)
        self.log_manager.load(now_ms=self.now_ms)
        self.replica_manager = ReplicaManager(
            ReplicationContext(
                NODE_ID,
                config=lambda: self.config,
                broker_epoch=lambda: self.epoch,
                gate=self.gate,
                purgatory=self.purgatory,
                wall_ms=self.wall_ms,
                clock_ms=self.wall_ms,
            ),
            self.log_manager,
            link_to=self.link_to,
            alter_partition=self.alter_partition,
            assign_directories=self.assign_directories,
        )
        self.groups = group_runtime(
            lambda: self.config,
            image=lambda: self.image,
            replica_manager=self.replica_manager,
            wall_ms=self.wall_ms,
        )
        self.authorizer = self._new_authorizer()
        self.tasks: trio.Nursery | None = None
        self.marker_writer = MarkerWriter(self.replica_manager, self.groups, start_soon=self.start_soon)
        self.transactions = transaction_runtime(
            lambda: self.config,
            image=lambda: self.image,
            replica_manager=self.replica_manager,
            new_producer_id=lambda: self.producer_ids.take(),
            wall_ms=self.wall_ms,
            send=self._handle_message,
        )
        self.marker_sender = MarkerSender(
            self.replica_manager,
            self.transactions,
            self.marker_writer,
            link_to=self.link_to,
            start_soon=self.start_soon,
        )
        self.partition_adder = PartitionAdder(self.transactions, lambda: self.image)
        self.verifier = TransactionVerifier(
            self.replica_manager,
            self.transactions,
            link_to=self.link_to,
            start_soon=self.start_soon,
            backoff_ms=lambda: (20, 100),
        )
        self.controller = Controller(MemoryLog(), EMPTY_IMAGE, random=random.Random(0))
        self.controller.publisher.observe(self._apply)
        self.producer_ids = ProducerIds(self._allocate)
        self.apis = APIS
        self.buffers = ReceiveBuffers()
        self.port = 0
        self.check_stores: Callable[[BrokerConfig], None] = lambda config: None
        self.security: ListenerSecurity | None = None
        self.quota_layer: QuotaLayer | None = None

    def _new_authorizer(self) -> Authorizer | None:
        return Authorizer.of(self.config, self.wall_ms) if self.config.authorizer_class_name else None

    def _handle_message(self, message: object) -> None:
        match message:
            case TransitionEnded(transactional_id):
                self.purgatory.touch(("txn", transactional_id))
            case Markers():
                self.marker_sender.send(message)
            case DropMarkers(partition):
                self.marker_sender.drop(partition)

    def wall_ms(self) -> int:
        return self.now_ms

    is_paused = False

    async def until_awake(self) -> None:
        """It is never paused."""

    def start_soon(self, job: Callable[[], Awaitable[None]]) -> None:
        assert self.tasks is not None
        self.tasks.start_soon(job)

    def link_to(self, node_id: int) -> LeaderEndPoint:
        return self.peers.between(self.node_id, node_id)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return self.controller.alter_partition(request)

    def assign_directories(self, assignments: Sequence[DirectoryAssignment]) -> None:
        self.controller.assign_directories(node_id=NODE_ID, epoch=self.epoch, assignments=assignments)

    def start(self, port: int) -> None:
        """Register and unfence."""
        self.port = port
        self.controller.begin_epoch()
        self.epoch = self.controller.register_broker(
            BrokerRegistrationRequest(
                node_id=NODE_ID,
                incarnation=bytes(range(16)),
                endpoints=[Endpoint(LISTENER, "127.0.0.1", port)],
                directories=[d.directory_id for d in self.log_manager.directories],
            )
        )
        self.controller.unfence_broker(node_id=NODE_ID, epoch=self.epoch)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> TopicImage:
        defaults = TopicDefaults(1, 1, self.config.topic_defaults)
        new = NewTopic(name, partitions, 1, configs={key.replace("_", "."): configs[key] for key in configs})
        (outcome,) = self.controller.create_topics([new], defaults=defaults)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        self.replica_manager.apply(delta, image)
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)
        self.marker_sender.image_changed()
        if self.authorizer is not None:
            self.authorizer.apply(delta, image)
        if delta.changed_quotas and self.quota_layer is not None:
            self.quota_layer.update(image.client_quotas)

    def _allocate(self) -> tuple[int, int]:
        return self.controller.allocate_producer_ids(node_id=NODE_ID, broker_epoch=self.epoch)

    def socket_server(self) -> SocketServer:
        config = self.config
        engine = RequestEngine(self.apis)
        server = SocketServer(
            self,  # type: ignore[arg-type]
            apis=self.apis,
            engine=engine,
            buffers=self.buffers,
            quotas=ConnectionQuotas(
                max_connections=config.max_connections,
                max_connections_per_ip=config.max_connections_per_ip,
                overrides=parse_overrides(config.max_connections_per_ip_overrides),
            ),
            descriptors=Descriptors(),
            security=lambda _name: self.security or self._configured_security(engine),
        )
        self.quota_layer = QuotaLayer(EngineLayers(engine, server.use), config)
        return server

    def _configured_security(self, engine: RequestEngine) -> ListenerSecurity:
        listener = self.config.listener_configs[0]
        return listener_security(self, engine, listener, TlsContexts())  # type: ignore[arg-type]


@asynccontextmanager
async def running_node(
    directory: Path,
    properties: dict[str, str] | None = None,
    *,
    apis: Any = APIS,
    security: ListenerSecurity | None = None,
) -> AsyncIterator[Node]:
    """Serve a node on a free port of the loopback, with the security of its first listener or another."""
    node = Node(directory, properties)
    node.apis = apis
    node.security = security
    (listening,) = open_listening_sockets("127.0.0.1", 0)
    node.server = server = node.socket_server()  # type: ignore[attr-defined]
    node.start(listening.getsockname()[1])
    async with trio.open_nursery() as nursery:
        node.tasks = nursery
        await nursery.start(node.timer.run)
        await nursery.start(node.groups.run)
        await nursery.start(node.transactions.run)
        await nursery.start(server.serve, LISTENER, listening)
        yield node
        nursery.cancel_scope.cancel()
    node.log_manager.close(now_ms=node.now_ms)


class Client:
    """A client that sends what it is told, and reads frames."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = bytearray()
        self._correlation_id = 0

    async def send(self, request: object, version: int, client_id: str | None = "test") -> int:
        """Send a request; return its correlation id."""
        self._correlation_id += 1
        header = RequestHeader(message_info(type(request)).key, version, self._correlation_id, client_id)
        await self.stream.send_all(encode_request(header, request))
        return self._correlation_id

    async def ask(self, request: object, version: int, client_id: str | None = "test") -> Any:
        """Send a request and return its response."""
        expected = await self.send(request, version, client_id)
        correlation_id, response = await self.receive(message_info(type(request)).key, version)
        assert correlation_id == expected
        return response

    async def receive(self, key: int, version: int) -> tuple[int, Any]:
        """Return the correlation id and the body of the next response."""
        return decode_response(key, version, await self.receive_frame())

    async def receive_frame(self) -> bytes:
        """Return the next frame without its size."""
        await self._fill(4)
        (size,) = struct.unpack_from(">i", self._received)
        await self._fill(4 + size)
        frame = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return frame

    @property
    def has_received(self) -> bool:
        """Whether anything has come that was not asked for yet."""
        return bool(self._received or select.select([self.stream.socket], [], [], 0)[0])

    async def is_closed(self) -> bool:
        """Wait for the broker to send or close; return whether it closed."""
        try:
            return not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True

    async def _fill(self, count: int) -> None:
        while len(self._received) < count:
            data = await self.stream.receive_some()
            if not data:
                raise EOFError("the broker closed the connection")
            self._received += data


@asynccontextmanager
async def connected(node: Node) -> AsyncIterator[Client]:
    """Connect to a node."""
    async with await trio.open_tcp_stream("127.0.0.1", node.port) as stream:
        yield Client(stream)
