"""Broker: one node of the cluster, with its listeners, its replicas, and the image that it acts on.

A node reads only its own image; the controller publishes every change to it, in order.

| step | what happens |
|---|---|
| `open` | locks the log directories, binds the ports |
| `register` | registers with the controller, fenced |
| `load` | loads the logs, applies the image |
| `run` | starts the tasks; cancelling it is a kill |
| `accept` | lets the listeners accept |
| `close` | after `run`: makes it an orderly stop |

The tasks of a paused node wait at `gate`.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import trio

from kcli.broker.config.listener_config import SECURITY_PROTOCOLS
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.coordinator.group_service import reconfigure_groups
from kcli.broker.coordinator.transaction_service import reconfigure_transactions
from kcli.broker.metadata.metadata_image import Endpoint, MetadataDelta
from kcli.broker.network.apis import APIS
from kcli.broker.network.listener_security import PlaintextListener
from kcli.broker.network.request_engine import EngineLayers
from kcli.broker.network.socket_server import (
    ConnectionQuotas,
    SocketServer,
    open_listening_sockets,
    parse_overrides,
)
from kcli.broker.node.broker_lifecycle import BrokerLifecycleManager
from kcli.broker.node.housekeeping import Housekeeping
from kcli.broker.node_context import NodeContext, NodeState
from kcli.broker.waiting.threads import run_in_thread
from kcli.errors import KcliError
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.uuids import random_uuid
from kcli.storage.dirs.log_manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.listener_config import ListenerConfig
    from kcli.broker.controller.controller_election import ControllerLink
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.metadata_publisher import MetadataPublisher
    from kcli.broker.network.descriptors import Descriptors
    from kcli.broker.network.inbox import ReceiveBuffers
    from kcli.broker.network.listener_security import ListenerSecurity
    from kcli.broker.network.quota_engine import QuotaLayer
    from kcli.broker.network.request_engine import RequestEngine
    from kcli.broker.node.log_cleaner import LogCleaner
    from kcli.broker.replication.leader_endpoint import LeaderEndPoints
    from kcli.broker.security.audit import Audit
    from kcli.broker.security.authorizer import Authorizer
    from kcli.broker.security.tls_contexts import TlsContexts
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.dirs.log_directory import LogDirectory
    from kcli.storage.log.log_config import LogConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What the nodes of a process share. `wall_ms` dates records and files."""

    cluster_id: str
    engine: RequestEngine
    buffers: ReceiveBuffers
    peers: LeaderEndPoints
    descriptors: Descriptors
    wall_ms: Callable[[], int]


class Broker(NodeContext):
    """One node with its life; `metadata_directory` is the log directory of its copy of the metadata log."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: tuple[str, ...],
        *,
        process: ProcessContext,
        controller_link: ControllerLink,
    ) -> None:
        super().__init__(
            config,
            cluster_id=process.cluster_id,
            log_manager=self._new_log_manager(config, log_dirs, process.cluster_id),
            peers=process.peers,
            controller_link=controller_link,
            wall_ms=process.wall_ms,
        )
        self.authorizer = self._authorizer = _new_authorizer(config, process.wall_ms)
        self.is_working = False
        """True once `run` has started its tasks."""
        self.engine = process.engine
        self.lifecycle = BrokerLifecycleManager(self)
        self.endpoints: tuple[Endpoint, ...] = ()
        self._quotas = ConnectionQuotas()
        self._set_connection_limits()
        self._server = SocketServer(
            self,
            apis=APIS,
            engine=self.engine,
            buffers=process.buffers,
            quotas=self._quotas,
            descriptors=process.descriptors,
            security=self._security_of,
        )
        self._securities: dict[str, ListenerSecurity] = {}
        self.tls: TlsContexts | None = None
        """The keys and certificates of listeners with TLS; None if there are none."""
        self.engine_layers = EngineLayers(self.engine, self._server.use)
        self._quota_layer: QuotaLayer | None = None
        self._sockets: list[tuple[str, socket.socket]] = []
        self.metadata_directory = log_dirs[0]
        self._may_accept, self._accepts = trio.Event(), trio.Event()
        self._failed = trio.Event()
        self._failure: Exception | None = None

    def _new_log_manager(
        self, config: BrokerConfig, log_dirs: tuple[str, ...], cluster_id: str
    ) -> LogManager:
        return LogManager(
            log_dirs,
            node_id=config.node_id,
            cluster_id=cluster_id,
            default_config=config.log_config({}),
            config_for=self._topic_log_config,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            recovery_threads=config.num_recovery_threads_per_data_dir,
            report=_log.warning,
            on_directory_failure=self._directory_failed,
        )

    def open(
        self,
        ports: Mapping[str, int],
        *,
        keep: Callable[[socket.socket], None],
        directory_id: bytes | None = None,
    ) -> None:
        """Lock the log directories and bind the listeners' ports. Raises `KcliError`.

        `ports`, by listener name, are used for listeners without a fixed port: an earlier run of this node
        had them. `keep` gets each socket that is bound now, before it listens. `directory_id` is for the log
        directory without an id.
        """
        self._securities = self._listener_securities()
        self.log_manager.open(now_ms=self.wall_ms(), directory_id=directory_id)
        advertised = {listener.name: listener for listener in self.config.advertised_listener_configs}
        endpoints = []
        for listener in self.config.listener_configs:
            sockets = open_listening_sockets(
                listener.host,
                listener.port or ports.get(listener.name, 0),
                receive_buffer_bytes=self.config.socket_receive_buffer_bytes,
                backlog=self.config.socket_listen_backlog_size,
                keep=keep,
            )
            self._sockets.extend((listener.name, sock) for sock in sockets)
            if listener.name in advertised:
                port: int = sockets[0].getsockname()[1]
                endpoints.append(_endpoint(listener, advertised[listener.name], port))
        self.endpoints = tuple(endpoints)

    def _listener_securities(self) -> dict[str, ListenerSecurity]:
        """Return how the clients of each listener with TLS or SASL are let in. Raises `UsageError`."""
        secured = [each for each in self.config.listener_configs if each.security_protocol != "PLAINTEXT"]
        if not secured:
            return {}
        # Most brokers have none.
        from kcli.broker.security.listener_security import listener_security
        from kcli.broker.security.tls_contexts import TlsContexts

        contexts = TlsContexts()
        found = {each.name: listener_security(self, self.engine, each, contexts) for each in secured}
        if any(each.is_tls for each in secured):
            self.tls, self.check_stores = contexts, contexts.check
        return found

    def _security_of(self, listener_name: str) -> ListenerSecurity:
        return self._securities.get(listener_name) or PlaintextListener()

    @property
    def ports(self) -> Mapping[str, int]:
        """The port of each advertised listener."""
        return {endpoint.name: endpoint.port for endpoint in self.endpoints}

    def register(self, *, with_process: bool) -> None:
        """Register with the controller; the node stays fenced. Raises `KafkaError`.

        A node that starts alone after an unclean stop may have lost records (KIP-966). Nodes that start
        `with_process` all ended in one moment (`cluster_control`).
        """
        former = self.controller.image.brokers.get(self.node_id)
        had_clean_stop = (
            with_process or former is None or self.log_manager.directories.were_closed_in(former.epoch)
        )
        self.epoch = self.controller.register_broker(
            BrokerRegistrationRequest(
                node_id=self.node_id,
                incarnation=random_uuid(),
                endpoints=self.endpoints,
                directories=[directory.directory_id for directory in self.log_manager.directories.online],
                rack=self.config.broker_rack,
                had_clean_stop=had_clean_stop,
            )
        )

    async def load(self, publisher: MetadataPublisher) -> None:
        """Load the logs, recovering after an unclean stop, and follow the metadata from now on."""
        self.image = publisher.latest
        self._update_config()
        load = partial(self.log_manager.load, now_ms=self.wall_ms(), keep=self._has_replica)
        await run_in_thread(load, abandon_on_cancel=True)
        # Other nodes ran meanwhile and may have changed the metadata.
        self.apply(MetadataDelta.from_nothing(publisher.latest), publisher.latest)
        publisher.add(self)

    def _has_replica(self, topic_partition: TopicPartition, topic_id: bytes | None) -> bool:
        topic = self.image.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return False
        here = self.node_id in topic.partitions[topic_partition.partition].replicas
        return here and topic_id in (None, topic.topic_id)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled. It counts as started when all tasks run, before the listeners accept.

        Raises `KcliError` when the last log directory fails, or the one with the metadata log, and the error
        that `fail` was given.
        """
        try:
            async with trio.open_nursery() as nursery:
                self.tasks = nursery
                await nursery.start(self.timer.run)
                await nursery.start(self.groups.run)
                await nursery.start(self.transactions.run)
                await nursery.start(self._server.sweep)
                housekeeping = Housekeeping(
                    self.log_manager,
                    replica_manager=self.replica_manager,
                    config=self.config,
                    wall_ms=self.wall_ms,
                    gate=self.gate,
                    replicas_back=self._review_coordinators,
                    look_for_stores=self._look_for_stores if self.tls is not None else None,
                )
                await nursery.start(housekeeping.run)
                nursery.start_soon(self._compact_logs)
                await nursery.start(self.replica_manager.run)
                await nursery.start(self.lifecycle.run)
                self.is_working = True
                task_status.started()
                await self._may_accept.wait()
                while self._sockets:
                    name, listening = self._sockets.pop()
                    await nursery.start(self._server.serve, name, listening)
                self.state = NodeState.RUNNING
                self._accepts.set()
                await self._failed.wait()
                assert self._failure is not None
                raise self._failure
        finally:
            self.tasks = None
            self._accepts.set()

    @cached_property
    def log_cleaner(self) -> LogCleaner:
        """What compacts the logs; its modules are loaded when it is needed first."""
        from kcli.broker.node.log_cleaner import LogCleaner

        return LogCleaner(self.log_manager, config=lambda: self.config, wall_ms=self.wall_ms, gate=self.gate)

    async def _compact_logs(self) -> None:
        """Run the log cleaner from the moment on when a compacted log has a closed segment."""
        if not self.config.log_cleaner_enable:
            return
        while not self._may_compact():  # noqa: ASYNC110  # an event would cost every roll of a segment
            await trio.sleep(self.config.log_cleaner_backoff_seconds)
        await self.log_cleaner.run()

    def _may_compact(self) -> bool:
        return any(log.config.is_compacted and len(log.segments) > 1 for log in self.log_manager)

    async def accept(self) -> None:
        """Let the listeners accept; return when they do, or when the node has failed."""
        self._may_accept.set()
        await self._accepts.wait()

    def fail(self, error: Exception) -> None:
        """End the node with an error, soon."""
        if self._failure is None:
            self._failure = error
            self._failed.set()

    def pause(self) -> None:
        """Stop all work, as after SIGSTOP: clients and other nodes get no answer."""
        self.state = NodeState.PAUSED
        self.gate.close()

    def resume(self) -> None:
        self.state = NodeState.RUNNING
        self.gate.open()

    def stop_coordinating(self) -> None:
        """Answer every request that waits in a coordinator, and close the coordinators."""
        self.groups.stop()
        self.transactions.stop()

    def _review_coordinators(self) -> None:
        self.groups.review_leadership()
        self.transactions.review_leadership()

    def close(self, *, clean: bool) -> None:
        """Release everything; after a clean close the next start recovers nothing."""
        for _, listening in self._sockets:
            listening.close()
        self.log_manager.close(clean=clean, broker_epoch=self.epoch, now_ms=self.wall_ms())

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over an image; its changes are in effect on return."""
        self.image = image
        self.known_controller_id = self.controller_link.controller_id
        self.replica_manager.apply(delta, image)
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)
        if self.has_sent_markers:
            self.marker_sender.image_changed()
        own = {(ConfigResourceType.BROKER, ""), (ConfigResourceType.BROKER, str(self.node_id))}
        if own & delta.changed_configs:
            self._update_config()
            self.replica_manager.config_changed()
            if "log_cleaner" in vars(self):
                self.log_cleaner.wake()
        if delta.changed_quotas:
            self._limit_clients()
        if self._authorizer is not None:
            self._authorizer.apply(delta, image)

    @property
    def audit(self) -> Audit | None:
        """What the authorizer has denied, None without an authorizer."""
        return None if self._authorizer is None else self._authorizer.audit

    def _limit_clients(self) -> None:
        if self._quota_layer is None:
            from kcli.broker.network.quota_engine import QuotaLayer  # Most clusters have no quotas.

            self._quota_layer = QuotaLayer(self.engine_layers, self.config)
        self._quota_layer.update(self.image.client_quotas)

    def _update_config(self) -> None:
        self.config = self.config.with_dynamic(
            broker=self.image.config(ConfigResourceType.BROKER, str(self.node_id)),
            default=self.image.config(ConfigResourceType.BROKER, ""),
        )
        self.log_manager.default_config = self.config.log_config({})
        self.log_manager.set_producer_id_expiration(self.config.producer_id_expiration_ms)
        verifies = self.config.transaction_partition_verification_enable
        self.log_manager.set_transaction_verification(verifies=verifies)
        # Takes effect at the next start, when the logs are loaded.
        self.log_manager.recovery_threads = self.config.num_recovery_threads_per_data_dir
        self._set_connection_limits()
        self._look_for_stores()
        reconfigure_groups(self.groups, self.config)
        reconfigure_transactions(self.transactions, self.config)

    def _look_for_stores(self) -> None:
        """Load key and trust stores again that have changed, or are others now."""
        if self.tls is not None:
            self.tls.reload(self.config)

    def _set_connection_limits(self) -> None:
        self._quotas.max_connections = self.config.max_connections
        self._quotas.max_connections_per_ip = self.config.max_connections_per_ip
        self._quotas.overrides = parse_overrides(self.config.max_connections_per_ip_overrides)

    def _topic_log_config(self, topic: str) -> LogConfig:
        return self.config.log_config(self.image.topic_config(topic))

    def _directory_failed(self, directory: LogDirectory) -> None:
        self.replica_manager.directory_failed(directory.path)
        self._review_coordinators()
        if not self.log_manager.directories.online:
            self.fail(KcliError(f"node {self.node_id} stops: every log directory has failed"))
        elif directory.path == self.metadata_directory:
            self.fail(KcliError(f"node {self.node_id} stops: the directory of the metadata log has failed"))
        else:
            # Later, because the controller may be in the middle of the work that noticed the failure.
            self.timer.call_soon(self._report_directories)

    async def _report_directories(self) -> None:
        self.lifecycle.beat()
        await trio.lowlevel.checkpoint()


def _new_authorizer(config: BrokerConfig, wall_ms: Callable[[], int]) -> Authorizer | None:
    if not config.authorizer_class_name:
        return None
    from kcli.broker.security.authorizer import Authorizer  # Most clusters have none.

    return Authorizer.of(config, wall_ms)


def _endpoint(listener: ListenerConfig, advertised: ListenerConfig, port: int) -> Endpoint:
    """Return the address that clients get for a listener bound to `port`."""
    host = advertised.host or socket.gethostname()
    shown = advertised.port or port
    return Endpoint(listener.name, host, shown, SECURITY_PROTOCOLS[listener.security_protocol])
