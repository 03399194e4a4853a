"""NodeContext: the state of one node, for its handlers, sockets and background tasks.

`Broker` adds the life of the node, and is imported by nothing below `kcli.broker.node`.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from kcli.broker.controller.producer_ids import ProducerIds
from kcli.broker.coordinator.group_service import group_runtime
from kcli.broker.coordinator.transaction_service import transaction_runtime
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE
from kcli.broker.replication.fetch_session import FetchSessionCache
from kcli.broker.replication.hosted_partitions import ReplicationContext
from kcli.broker.replication.replica_manager import ReplicaManager
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.broker.waiting.purgatory import Purgatory
from kcli.broker.waiting.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import trio

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.controller.controller import Controller
    from kcli.broker.controller.controller_election import ControllerLink
    from kcli.broker.controller.directory_control import DirectoryAssignment
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.replication.leader_endpoint import LeaderEndPoint, LeaderEndPoints
    from kcli.broker.transactions.marker_sender import MarkerFaults, MarkerSender
    from kcli.broker.transactions.marker_writer import MarkerWriter
    from kcli.broker.transactions.partition_adder import PartitionAdder
    from kcli.broker.transactions.transaction_verifier import TransactionVerifier
    from kcli.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
    from kcli.security.access import Authorizer
    from kcli.storage.dirs.log_manager import LogManager


class NodeState(Enum):
    """The life of a node; commands show the value.

    | state | what the node does | next |
    |---|---|---|
    | STARTING | loads its logs; it is fenced, and its listeners accept nothing | RUNNING, DEAD |
    | RUNNING | serves | PAUSED, STOPPING, DEAD |
    | PAUSED | nothing, as after SIGSTOP: its sockets stay open and send no answers | RUNNING, DEAD |
    | STOPPING | hands over its partitions, then closes | DEAD |
    | DEAD | does not exist; another broker may start in its place | STARTING |
    """

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    DEAD = "dead"


class NodeContext:
    """One node. `epoch` is its broker epoch, -1 before it registers; `image` is the metadata it acts on."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        log_manager: LogManager,
        peers: LeaderEndPoints,
        controller_link: ControllerLink,
        wall_ms: Callable[[], int],
    ) -> None:
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.config = config
        self.state = NodeState.STARTING
        self.image: MetadataImage = EMPTY_IMAGE
        self.epoch = -1
        self.known_controller_id = -1
        """The controller's node when this node last applied metadata."""
        self.authorizer: Authorizer | None = None
        """What decides who may do what; None if everybody may do everything."""
        self.check_stores: Callable[[BrokerConfig], None] = lambda config: None
        """Raises `UsageError` if a listener could not have the key and trust store of a configuration."""
        self.tasks: trio.Nursery | None = None
        """Where tasks of the node run, while it runs."""
        self.gate = PauseGate()
        self.wall_ms = wall_ms
        self.peers = peers
        self.controller_link = controller_link
        self.timer = Timer(self.gate)
        self.purgatory = Purgatory(self.timer)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.log_manager = log_manager
        self.replica_manager = ReplicaManager(
            ReplicationContext(
                self.node_id,
                config=lambda: self.config,
                broker_epoch=lambda: self.epoch,
                gate=self.gate,
                purgatory=self.purgatory,
                wall_ms=wall_ms,
            ),
            log_manager,
            link_to=self._link_to,
            alter_partition=self._alter_partition,
            assign_directories=self._assign_directories,
        )
        self._marker_faults: MarkerFaults | None = None
        self.groups = group_runtime(
            lambda: self.config,
            image=lambda: self.image,
            replica_manager=self.replica_manager,
            wall_ms=wall_ms,
        )
        self.transactions = transaction_runtime(
            lambda: self.config,
            image=lambda: self.image,
            replica_manager=self.replica_manager,
            new_producer_id=self.producer_ids.take,
            wall_ms=wall_ms,
            send=self._handle_message,
        )

    @property
    def controller(self) -> Controller:
        """The controller. Raises `KafkaError` NOT_CONTROLLER while this node cannot reach one."""
        return self.controller_link.current()

    @property
    def is_paused(self) -> bool:
        return self.gate.is_closed

    async def until_awake(self) -> None:
        await self.gate.passed()

    def start_soon(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job in a task of its own, which ends with the node; a node that does not run starts none."""
        if self.tasks is not None:
            self.tasks.start_soon(job)

    @cached_property
    def marker_writer(self) -> MarkerWriter:
        """What writes the ends of transactions here; imported when the first one comes."""
        from kcli.broker.transactions.marker_writer import MarkerWriter

        return MarkerWriter(self.replica_manager, self.groups, start_soon=self.start_soon)

    def set_marker_faults(self, faults: MarkerFaults | None) -> None:
        """Let the markers of this node's coordinators meet faults, or none, from now on."""
        self._marker_faults = faults
        if self.has_sent_markers:
            self.marker_sender.use_faults(faults)

    @cached_property
    def marker_sender(self) -> MarkerSender:
        """What brings the ends of this node's transactions to all nodes; made for the first one."""
        from kcli.broker.transactions.marker_sender import MarkerSender

        sender = MarkerSender(
            self.replica_manager,
            self.transactions,
            self.marker_writer,
            link_to=self._link_to,
            start_soon=self.start_soon,
        )
        sender.use_faults(self._marker_faults)
        return sender

    @cached_property
    def partition_adder(self) -> PartitionAdder:
        """What adds partitions to this node's transactions; made for the first one."""
        from kcli.broker.transactions.partition_adder import PartitionAdder

        return PartitionAdder(self.transactions, lambda: self.image)

    @property
    def has_sent_markers(self) -> bool:
        """Whether there is a `marker_sender` yet."""
        return "marker_sender" in vars(self)

    def _handle_message(self, message: object) -> None:
        """Do what a shard of transactions asks for."""
        from kcli.broker.coordinator.transaction.messages import DropMarkers, Markers, TransitionEnded

        match message:
            case TransitionEnded(transactional_id):
                self.purgatory.touch(("txn", transactional_id))
            case Markers():
                self.marker_sender.send(message)
            case DropMarkers(partition):
                if self.has_sent_markers:
                    self.marker_sender.drop(partition)

    @cached_property
    def verifier(self) -> TransactionVerifier:
        """What asks coordinators about transactions; imported when the first batch of one comes."""
        from kcli.broker.transactions.transaction_verifier import TransactionVerifier

        return TransactionVerifier(
            self.replica_manager,
            self.transactions,
            link_to=self._link_to,
            start_soon=self.start_soon,
            backoff_ms=lambda: (
                self.config.add_partitions_to_txn_retry_backoff_ms,
                self.config.add_partitions_to_txn_retry_backoff_max_ms,
            ),
        )

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Write the ends of transactions for a coordinator on another node."""
        return await self.marker_writer.written(request.markers)

    async def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        """Add partitions to transactions for the leader of a partition on another node."""
        return await self.partition_adder.add_all(request.transactions)

    def _link_to(self, node_id: int) -> LeaderEndPoint:
        link = self.peers.between(self.node_id, node_id)
        link.timeout_ms = self.config.replica_socket_timeout_ms
        return link

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return self.controller.alter_partition(request)

    def _assign_directories(self, assignments: Sequence[DirectoryAssignment]) -> None:
        self.controller.assign_directories(node_id=self.node_id, epoch=self.epoch, assignments=assignments)

    def _allocate_producer_ids(self) -> tuple[int, int]:
        return self.controller.allocate_producer_ids(node_id=self.node_id, broker_epoch=self.epoch)
