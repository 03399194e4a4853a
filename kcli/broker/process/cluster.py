"""Cluster: the nodes of one process, one of which is the controller.

A start opens all directories and ports, then the metadata, then each node's logs; the listeners accept when
all logs are loaded. Each node has a cancel scope of its own: it can be killed, stopped, paused and started
while the others go on (`node_operations`). A node that fails is fenced; with the last node the process ends.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import trio

from kcli.broker.config.broker_definitions import ControllerSettings
from kcli.broker.config.config_definition import view
from kcli.broker.config.listener_config import SECURITY_PROTOCOLS
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.controller_election import ControllerElection, ControllerLink
from kcli.broker.controller.credential_records import image_holds_credentials
from kcli.broker.controller.feature_control import unserved_warning
from kcli.broker.metadata.metadata_copies import MetadataCopies
from kcli.broker.metadata.metadata_damage import MetadataFault, find_fault, has_replicas
from kcli.broker.metadata.metadata_publisher import MetadataPublisher
from kcli.broker.network.apis import APIS
from kcli.broker.network.descriptors import Descriptors
from kcli.broker.network.inbox import ReceiveBuffers
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.node.broker import Broker, ProcessContext
from kcli.broker.node.node import Node, failure_reason, is_expected
from kcli.broker.node_context import NodeState
from kcli.broker.process.adopted_topics import adopt_topics, skip_adopted_producers
from kcli.broker.process.cluster_events import ClusterEvents, ConfigWarnings
from kcli.broker.process.forgotten_topics import refuse_forgotten_topics
from kcli.broker.process.node_layout import (
    ClusterOptions,
    NodeLayout,
    check_ports,
    is_id_lost,
    known_cluster_id,
    make_directories,
)
from kcli.broker.replication.leader_endpoint import LeaderEndPoints
from kcli.broker.waiting.threads import run_in_thread
from kcli.broker.waiting.timer import monotonic_ms, wall_ms
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import random_uuid, uuid_to_text
from kcli.storage.dirs.log_directory import META_PROPERTIES
from kcli.storage.disk import remove_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.controller.controller import ControllerLog
    from kcli.broker.faults.faults import Faults
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metering.meters import Meters

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.25
LATE_MS = 350


class NodeWatch:
    """The task that calls the controller on time: for sessions, successors, and copies of the metadata.

    If it runs late, the process was busy or suspended, and no node could send heartbeats. Then `beat_all`
    lets each node send one before any is fenced.
    """

    def __init__(self, election: ControllerElection, beat_all: Callable[[], None]) -> None:
        self._election = election
        self._beat_all = beat_all
        self._last_ms = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._last_ms = monotonic_ms()
        task_status.started()
        while True:
            await trio.sleep(self._pause_seconds(monotonic_ms()))
            self.look(monotonic_ms())

    def _pause_seconds(self, now_ms: int) -> float:
        """Return the time until something is due; `look` notices the end of a session at once."""
        controller = self._election.controller
        end_ms = None if controller is None else controller.first_session_end_ms
        if end_ms is None or end_ms <= now_ms:
            return TICK_SECONDS
        return min(TICK_SECONDS, (end_ms - now_ms) / 1000)

    def look(self, now_ms: int) -> None:
        """Do what is due, an election included."""
        if now_ms - self._last_ms > LATE_MS:
            self._beat_all()
        self._last_ms = now_ms
        try:
            self._election.tick(now_ms)
        except (OSError, KcliError) as error:
            _log.error("periodic work of the controller failed: %s", error)


__all__ = ["Cluster", "ClusterOptions"]

STOP_SECONDS = 60.0
"""After this time an orderly stop becomes a kill."""

LAST_TURNS = 3
"""The turns of the event loop for connections to send their last answers."""

HANDOVER_SECONDS = 30.0
"""The time for a stopping node to hand over its partitions."""

CONTROLLER_SECONDS = 15.0
"""The time for a starting node to reach a controller."""


class Cluster:
    """The nodes of one process. Make one, `run` it in a nursery, `stop` it."""

    def __init__(self, options: ClusterOptions, *, wall_ms: Callable[[], int] = wall_ms) -> None:
        self.options = options
        self.cluster_id = ""
        self.layout = NodeLayout(options)
        self.nodes: dict[int, Node] = {}
        """All nodes, dead ones too, by ascending id."""
        self.peers = LeaderEndPoints(self._find)
        self.descriptors = Descriptors()
        self._faults: Faults | None = None
        self._meters: Meters | None = None
        self.stopped = trio.Event()
        self.failed: dict[int, Exception] = {}
        """The errors that nodes failed with, by node id."""
        self._wall_ms = wall_ms
        self.stop_requested = trio.Event()
        self._loading = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._engine, self._buffers = RequestEngine(APIS), ReceiveBuffers()
        self._closes_cleanly = False
        self._fatal: Exception | None = None
        self.publisher = MetadataPublisher(is_reachable=self._is_reachable, failed=self._node_failed)
        self.election = ControllerElection(
            MetadataCopies(wall_ms=wall_ms, report=_log.warning),
            self.publisher,
            make=self._make_controller,
            running=self.present,
            reaches=self.reaches,
            failed=self._node_failed,
        )
        self._watch = NodeWatch(self.election, self.beat_all)

    @property
    def brokers(self) -> list[Broker]:
        """The broker of each node, dead ones too, by ascending id."""
        return [node.broker for node in self.nodes.values()]

    @property
    def controller(self) -> Controller:
        """The controller, on any node. Raises `KcliError` between two controllers."""
        if self.election.controller is None:
            raise KcliError("no node is the controller, for now", hint="try again")
        return self.election.controller

    @property
    def faults(self) -> Faults:
        """The injected faults; imported on first use, because most processes have none."""
        if self._faults is None:
            from kcli.broker.faults.faults import Faults

            self._faults = Faults(self)
        return self._faults

    @property
    def meters(self) -> Meters:
        if self._meters is None:
            from kcli.broker.metering.meters import Meters

            self._meters = Meters(self)
        return self._meters

    @property
    def stopping(self) -> bool:
        return self.stop_requested.is_set()

    @property
    def bootstrap_servers(self) -> list[str]:
        """One `host:port` per node: its first advertised listener."""
        return [broker.endpoints[0].address for broker in self.brokers if broker.endpoints]

    def tls_address(self) -> tuple[str, str]:
        """Return the first advertised listener with TLS of each node, and its security protocol."""
        numbers = {number: name for name, number in SECURITY_PROTOCOLS.items() if name.endswith("SSL")}
        found = [
            next((each for each in broker.endpoints if each.security_protocol in numbers), None)
            for broker in self.brokers
        ]
        endpoints = [endpoint for endpoint in found if endpoint is not None]
        protocol = numbers[endpoints[0].security_protocol] if endpoints else "SSL"
        return ",".join(endpoint.address for endpoint in endpoints), protocol

    def stop(self) -> None:
        """Begin an orderly stop; `run` returns at its end."""
        self.stop_requested.set()
        self._loading.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start every node, serve until `stop`, then stop them in order. Cancelling it is a kill.

        It counts as started when every listener accepts, or when `stop` came first. Raises `KcliError` for
        unusable directories, ports and properties, and the error that the last node failed with.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                with self._loading:
                    await self._start_all()
                is_complete = not self._loading.cancelled_caught
                task_status.started()
                await self.stop_requested.wait()
                await self._answer_waiting_requests()
                self._closes_cleanly = is_complete
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                for node in self.nodes.values():
                    await self._end(node)
                    node.give_up_ports()
            if self._faults is not None:
                self._faults.clear_all()  # Or the disk that a fault has filled would stay full.
            self.stopped.set()
        if self._fatal is not None:
            raise self._fatal

    def node(self, node_id: int) -> Node:
        """Return a node, dead or alive. Raises `KcliError` if there is no such node."""
        node = self.nodes.get(node_id)
        if node is None:
            known = ", ".join(map(str, self.nodes))
            raise KcliError(f"there is no node {node_id}", hint=f"the nodes are {known}")
        return node

    def present(self) -> list[int]:
        """Return the nodes that the controller can count on: alive and not paused."""
        return [node_id for node_id, _ in self.election.copies if not self.nodes[node_id].broker.is_paused]

    def reaches(self, one: int, other: int) -> bool:
        if one == other:
            return True
        return not (self.peers.between(one, other).is_cut or self.peers.between(other, one).is_cut)

    def beat_all(self, *, other_than: int | None = None) -> None:
        """Let every present node send a heartbeat now."""
        for node_id in self.present():
            if node_id != other_than:
                self.nodes[node_id].broker.lifecycle.beat()

    def _is_reachable(self, node_id: int) -> bool:
        """Return whether the controller can bring metadata to a node now."""
        controller_id = self.election.controller_id
        return node_id in self.present() and (controller_id is None or self.reaches(controller_id, node_id))

    def _find(self, node_id: int) -> Broker | None:
        node = self.nodes.get(node_id)
        return node.broker if node is not None and node.is_alive else None

    async def _start_all(self) -> None:
        nodes = self._open_nodes()
        controller = self._open_metadata([node.node_id for node in nodes])
        for node in nodes:
            node.broker.register(with_process=True)
            if self.options.adopt:
                adopt_topics(controller, node.config, node.log_dirs)
        for node in nodes:
            await node.broker.load(self.publisher)
            if self.options.adopt:
                skip_adopted_producers(controller, node.broker)
        assert self._nursery is not None
        for node in nodes:
            await self._nursery.start(self._serve, node)
        controller.nodes_came_up(
            {node.node_id: node.broker.epoch for node in nodes}, nodes[0].broker.config.topic_defaults
        )
        if self.options.users:
            from kcli.broker.process.stored_users import store_users  # Most clusters have no users.

            store_users(self.options.users, controller)
        for node in nodes:
            await node.broker.accept()
        self.publisher.observe(ClusterEvents(self.publisher.latest).follow)
        await self._nursery.start(self._watch.run)

    def _open_nodes(self) -> list[Node]:
        """Make all nodes; lock the directories and bind the ports of those to start. Raises `KcliError`.

        It checks every node's directories and ports before it writes anything but `meta.properties`, and
        removes what it made if it fails.
        """
        layout = self.layout
        to_start = layout.to_start()
        configs = {each: layout.config(each) for each in sorted({*to_start, *layout.present()})}
        check_ports([configs[each] for each in to_start])
        log_dirs = [path for each in to_start for path in layout.log_dirs(configs[each])]
        self._refuse_lost_metadata([configs[each] for each in to_start], configs.values())
        made = make_directories(log_dirs)
        nodes: list[Node] = []
        try:
            known_id = known_cluster_id(log_dirs)
            self.cluster_id = known_id or uuid_to_text(random_uuid())
            for config in configs.values():
                self.new_node(config)
            lost_ids = self._lost_directory_ids(to_start)
            for node_id in to_start:
                node = self.nodes[node_id]
                for warning in node.config.warnings:
                    _log.warning(warning)
                node.open(lost_ids.get(node_id))
                nodes.append(node)
        except BaseException:
            for node in nodes:
                node.broker.log_manager.directories.abandon()
            remove_empty(made)
            raise
        if known_id is None:
            _warn_of_new_id(self.cluster_id, log_dirs)
        return nodes

    def _lost_directory_ids(self, node_ids: Iterable[int]) -> Mapping[int, bytes]:
        """Return, by node, the id that its log directory without one had. Raises `KcliError`."""
        lost = [each for each in node_ids if is_id_lost(self.nodes[each].log_dirs)]
        if not lost:
            return {}
        from kcli.broker.process.lost_directory_ids import find_lost_ids  # Few starts need it.

        return find_lost_ids({node.node_id: node.log_dirs for node in self.nodes.values()}, lost)

    def _refuse_lost_metadata(
        self, to_start: Iterable[BrokerConfig], present: Iterable[BrokerConfig]
    ) -> None:
        """Raise `InvalidMetadata` if nodes have replicas, and no node has metadata about them."""
        layout = self.layout
        if not any(has_replicas(layout.log_dirs(config)) for config in to_start):
            return
        faults: list[MetadataFault] = []
        for config in present:
            try:
                fault = find_fault(layout.log_dirs(config)[0])
            except OSError:
                return  # The error comes again, and is reported, when the log is opened.
            if fault is None:
                return
            faults.append(fault)
        worst = max(faults, key=lambda fault: fault.is_damage)
        if worst.is_damage or not self.options.adopt:
            raise worst.refusal()

    def _open_metadata(self, node_ids: list[int]) -> Controller:
        """Open the copies; make the started node with the newest the controller. Raises `KcliError`."""
        copies = self.election.copies
        copies.open_all({node.node_id: node.broker.metadata_directory for node in self.nodes.values()})
        controller_id, newest = copies.newest(node_ids), copies.newest(self.nodes)
        log_dirs = [path for node_id in node_ids for path in self.nodes[node_id].log_dirs]
        assert controller_id is not None
        assert newest is not None
        try:
            # A node that stays down may have made the last decisions.
            if copies.version(newest) > copies.version(controller_id):
                copies[controller_id].follow(copies[newest])
            for node_id in self.nodes.keys() - set(node_ids):
                copies.close(node_id)
            controller = self.election.elect(
                controller_id,
                inspect=None if self.options.adopt else partial(refuse_forgotten_topics, log_dirs),
            )
            if image_holds_credentials(controller.image):
                for _node_id, copy in copies:
                    copy.make_private()
        except OSError as error:
            raise KcliError(
                f"cannot read the metadata log of node {controller_id}: {error.strerror}"
            ) from error
        controller.nodes_went_down(returning=node_ids)
        self.publisher.observe(ConfigWarnings(controller.image).follow)
        has_authorizer = all(node.config.authorizer_class_name for node in self.nodes.values())
        if line := unserved_warning(controller.image, has_authorizer=has_authorizer):
            _log.warning(line)
        return controller

    def new_node(self, config: BrokerConfig) -> Node:
        """Add a dead node."""
        node = self.nodes[config.node_id] = Node(config, self.layout.log_dirs(config), self._make_broker)
        return node

    def _make_broker(self, config: BrokerConfig, log_dirs: tuple[str, ...]) -> Broker:
        broker = Broker(
            config,
            log_dirs,
            process=ProcessContext(
                self.cluster_id,
                self._engine,
                self._buffers,
                peers=self.peers,
                descriptors=self.descriptors,
                wall_ms=self._wall_ms,
            ),
            controller_link=ControllerLink(config.node_id, self.election),
        )
        if self._faults is not None:
            self._faults.attend(broker)
        if self._meters is not None:
            self._meters.attend(broker)
        return broker

    def _make_controller(self, node_id: int, log: ControllerLog, image: MetadataImage) -> Controller:
        config = self.nodes[node_id].broker.config
        self.election.fetch_timeout_ms = config.controller_quorum_fetch_timeout_ms
        controller = Controller(
            log,
            image,
            random=Random(),
            publisher=self.publisher,
            topic_defaults=config.topic_defaults,
            settings=view(ControllerSettings, config),
        )
        controller.check_room = self.descriptors.check_room
        return controller

    async def start_node(self, node: Node) -> None:
        """Start a dead node while the others go on. Raises `KcliError`."""
        assert self._nursery is not None
        node.open(self._lost_directory_ids([node.node_id]).get(node.node_id))
        try:
            self.election.copies.open(node.node_id, node.broker.metadata_directory)
            self.failed.pop(node.node_id, None)
            await self._register(node.broker)
            await node.broker.load(self.publisher)
            await self._nursery.start(self._serve, node)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._end(node)
            raise
        node.broker.lifecycle.beat()
        await node.broker.accept()
        if node.failure is not None:
            raise KcliError(f"node {node.node_id} has failed: {failure_reason(node.failure)}")

    async def stop_node(self, node: Node) -> None:
        """Stop a running node: it hands over its partitions and the role of the controller, then ends."""
        node.broker.state = NodeState.STOPPING
        others = [each for each in self.present() if each != node.node_id]
        if self.election.controller_id == node.node_id and others:
            self.election.move_from(node.node_id)
        is_relieved = False
        with trio.move_on_after(HANDOVER_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat_with_others, node)
                is_relieved = await node.broker.lifecycle.until_relieved()
                nursery.cancel_scope.cancel()
        if not node.is_alive:
            raise KcliError(f"node {node.node_id} was {node.ended_by or 'killed'} while it stopped")
        if not is_relieved:
            _log.warning("node %d stops, but other nodes do not lead its partitions yet", node.node_id)
        node.broker.stop_coordinating()
        await trio.lowlevel.checkpoint()
        node.ended_by = "stopped"
        node.scope.cancel()
        await node.ended.wait()

    async def _beat_with_others(self, node: Node) -> None:
        """Let the other nodes confirm the new leaders now, not with their next heartbeat."""
        while True:
            await trio.sleep(0.01)
            self.beat_all(other_than=node.node_id)
            await trio.sleep(0.1)

    async def _register(self, broker: Broker) -> None:
        """Register a node with the controller; if there is none, wait for an election."""
        with trio.move_on_after(CONTROLLER_SECONDS):
            while True:
                # Through the watch: after a pause of the process every node sends a heartbeat first.
                self._watch.look(monotonic_ms())
                try:
                    return broker.register(with_process=False)
                except KafkaError as error:
                    if error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                    refusal = error
                await trio.sleep(broker.config.broker_heartbeat_interval_ms / 1000)
        raise KcliError(f"node {broker.node_id} cannot register: {refusal.message}")

    async def _serve(
        self, node: Node, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run a node until it is killed or fails, and close it."""
        try:
            with node.scope:
                await node.broker.run(task_status=task_status)
        except Exception as error:
            if not node.broker.is_working:
                raise
            self._note_failure(node, error)
        finally:
            with trio.CancelScope(shield=True):
                await self._end(node)

    def _node_failed(self, node_id: int, error: Exception) -> None:
        """End a node with an error that its copy of the metadata or its `apply` met."""
        self.nodes[node_id].broker.fail(error)

    def _note_failure(self, node: Node, error: Exception) -> None:
        node.failure = self.failed[node.node_id] = error
        node.ended_by = "failed"
        _log.error("node %d has failed: %s", node.node_id, failure_reason(error))
        if not is_expected(error):
            _log.error("this is a bug", exc_info=error)

    async def _end(self, node: Node) -> None:
        """Release everything that a node has, unless it is dead."""
        if node.ended.is_set():
            return
        is_clean = node.ended_by == "stopped" or (self._closes_cleanly and node.failure is None)
        node.broker.state = NodeState.DEAD
        self._leave(node)
        with trio.move_on_after(STOP_SECONDS) as scope:
            close = partial(node.broker.close, clean=is_clean)
            await run_in_thread(close, abandon_on_cancel=True)
        if scope.cancelled_caught:
            _log.error("node %d did not close its logs in %g s", node.node_id, STOP_SECONDS)
        node.ended.set()

    def _leave(self, node: Node) -> None:
        """Remove a node that has ended from everything that the other nodes use."""
        node_id = node.node_id
        self.publisher.remove(node_id)
        self.peers.node_died(node_id)
        try:
            self.election.copies.close(node_id)
        except OSError as error:
            _log.error("cannot close the metadata log of node %d: %s", node_id, error.strerror)
        if self._nursery is None or self.stopping:
            return
        self.election.node_gone(node_id, monotonic_ms())
        if node.failure is None:
            return
        if not any(other.is_alive for other in self.nodes.values()):
            self._fatal = node.failure
            _log.error("the process ends: no node is left")
            self.stop()
        elif self.election.controller is not None:
            try:
                self.election.controller.fence_broker(node_id=node_id, epoch=node.broker.epoch)
            except KafkaError as error:
                _log.error("node %d is not fenced: %s", node_id, error.message)

    async def _answer_waiting_requests(self) -> None:
        """Let the coordinators answer all waiting requests, and the connections send the answers."""
        for node in self.nodes.values():
            if node.is_alive:
                node.broker.stop_coordinating()
        for _ in range(LAST_TURNS):
            await trio.lowlevel.checkpoint()


def _warn_of_new_id(cluster_id: str, log_dirs: Iterable[str]) -> None:
    """Warn if there is metadata of a cluster, but no file with the id of that cluster."""
    for log_dir in log_dirs:
        if os.path.isdir(f"{log_dir}/{METADATA_TOPIC}-0"):
            line = "`%s` has metadata of a cluster, but no `%s` with the cluster id: it is %s from now on"
            _log.warning(line, log_dir, META_PROPERTIES, cluster_id)
            return
