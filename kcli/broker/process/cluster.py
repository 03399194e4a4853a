"""Cluster: everything that one process hosts: its nodes, one of which is the controller.

A start opens all directories and ports, then the metadata (`cluster_start`), then each node's logs; only when
all are loaded do the listeners accept.

Each node has a cancel scope of its own: it can be killed, stopped, paused and started while the others go
on (`node_operations`), and a node that fails is fenced and gone. The process ends, in order, when a node
fails and no other is left.

How a process begins: directories and ports of all its nodes first, then the metadata.

Nothing is left behind by a start that fails there: a mistake in any node's directories or ports is found
before anything is written but whose the directories are, which is taken back.

NodeWatch: the one task that has the controller look after the nodes: sessions, successors, copies.

The task may run late, because the process was busy or suspended as a whole. The nodes could not send
heartbeats either then, so none is taken for dead: each gets to send one first.
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
from kcli.broker.controller.controller import Controller, nodes_came_up, nodes_went_down
from kcli.broker.controller.controller_election import ControllerLink, ControllerOffice
from kcli.broker.metadata.metadata_copies import MetadataCopies, bring_level, set_aside
from kcli.broker.metadata.metadata_damage import Loss, find_loss, has_served
from kcli.broker.metadata.metadata_publisher import MetadataFeeds
from kcli.broker.metadata.metadata_replay import InvalidMetadata
from kcli.broker.network.apis import APIS
from kcli.broker.network.inbox import ReceiveBuffers
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.node.broker import Broker
from kcli.broker.node.node import Node, failure_reason, is_expected
from kcli.broker.node_context import NodeState
from kcli.broker.process.adopted_topics import adopt, skip_adopted_producers
from kcli.broker.process.cluster_events import ClusterEvents, ConfigWarnings
from kcli.broker.process.node_layout import (
    ClusterOptions,
    NodeLayout,
    check_ports,
    is_id_lost,
    known_cluster_id,
    make_directories,
)
from kcli.broker.replication.leader_endpoint import LeaderEndPoints
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
    from kcli.broker.controller.controller import Journal
    from kcli.broker.faults.faults import Faults
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metering.meters import Meters


_log = logging.getLogger(__name__)


def open_nodes(cluster: Cluster) -> list[Node]:
    """Make the places of all nodes; lock the directories and bind the ports of those to start.

    Raises `KcliError`, and leaves the directories as they were then.
    """
    layout = cluster.layout
    to_start = layout.to_start()
    configs = {each: layout.config(each) for each in sorted({*to_start, *layout.present()})}
    check_ports([configs[each] for each in to_start])
    log_dirs = [path for each in to_start for path in layout.log_dirs(configs[each])]
    _refuse_lost_metadata(cluster, [configs[each] for each in to_start], configs.values())
    made = make_directories(log_dirs)
    nodes: list[Node] = []
    try:
        known_id = known_cluster_id(log_dirs)
        cluster.cluster_id = known_id or uuid_to_text(random_uuid())
        for config in configs.values():
            cluster.new_node(config)
        lost_ids = lost_directory_ids(cluster, to_start)
        for node_id in to_start:
            node = cluster.nodes[node_id]
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
        _warn_of_new_id(cluster.cluster_id, log_dirs)
    return nodes


def lost_directory_ids(cluster: Cluster, node_ids: Iterable[int]) -> Mapping[int, bytes]:
    """Return, by node, the id that its log directory without one is to take back. Raises `KcliError`."""
    lost = [each for each in node_ids if is_id_lost(cluster.nodes[each].log_dirs)]
    if not lost:
        return {}
    from kcli.broker.process.lost_directory_ids import find_lost_ids  # Hardly any start needs it.

    return find_lost_ids({node.node_id: node.log_dirs for node in cluster.nodes.values()}, lost)


def _refuse_lost_metadata(
    cluster: Cluster, to_start: Iterable[BrokerConfig], present: Iterable[BrokerConfig]
) -> None:
    """Raise `InvalidMetadata` where nodes have replicas, and no node has metadata that tells of them."""
    layout = cluster.layout
    if not any(has_served(layout.log_dirs(config)) for config in to_start):
        return
    losses: list[Loss] = []
    for config in present:
        try:
            loss = find_loss(layout.log_dirs(config)[0])
        except OSError:
            return  # Opening it tells what is wrong.
        if loss is None:
            return
        losses.append(loss)
    worst = max(losses, key=lambda loss: loss.is_damage)
    if worst.is_damage or not cluster.options.adopt:
        raise worst.refusal()


def _warn_of_new_id(cluster_id: str, log_dirs: Iterable[str]) -> None:
    """Warn where the metadata of a cluster is older than its id, and does not tell the one it had."""
    for log_dir in log_dirs:
        if os.path.isdir(f"{log_dir}/{METADATA_TOPIC}-0"):
            _log.warning(
                "`%s` has metadata of a cluster, but no `%s` tells its id: it is %s from now on",
                log_dir,
                META_PROPERTIES,
                cluster_id,
            )
            return


def open_office(cluster: Cluster, node_ids: list[int]) -> Controller:
    """Open the copies of the metadata log, and have the node with the newest take office.

    Raises `KcliError`.
    """
    _open_copies(cluster)
    copies = cluster.office.copies
    holder, newest = copies.newest(node_ids), copies.newest(cluster.nodes)
    assert holder is not None
    assert newest is not None
    try:
        # A node that stays down may have been the last one that decided anything.
        if copies.version(newest) > copies.version(holder):
            bring_level(copies[holder], copies[newest])
        for node_id in cluster.nodes.keys() - set(node_ids):
            copies.close(node_id)
        controller = cluster.office.take(holder)
    except OSError as error:
        raise KcliError(f"cannot read the metadata log of node {holder}: {error.strerror}") from error
    nodes_went_down(controller, returning=node_ids)
    cluster.office.observe(ConfigWarnings(controller.image).follow)
    return controller


def _open_copies(cluster: Cluster) -> None:
    """Open the copies of all nodes. A damaged one is made anew from the others, if there is a sound one."""
    damaged: dict[int, InvalidMetadata] = {}
    for node in cluster.nodes.values():
        try:
            open_copy(cluster, node)
        except InvalidMetadata as found:
            damaged[node.node_id] = found
    if damaged and not any(log.end_offset for _, log in cluster.office.copies):
        raise min(damaged.items())[1]
    for node_id, error in damaged.items():
        node = cluster.nodes[node_id]
        try:
            kept = set_aside(node.broker.metadata_directory)
        except OSError as failure:
            raise error from failure
        _log.warning("%s; node %d gets another copy, this one is kept in `%s`", error.message, node_id, kept)
        open_copy(cluster, node)


def open_copy(cluster: Cluster, node: Node) -> None:
    """Open a node's copy of the metadata log. Raises `KcliError`."""
    log_dir = node.broker.metadata_directory
    try:
        cluster.office.copies.open(node.node_id, log_dir)
    except OSError as error:
        raise KcliError(f"cannot open the metadata log in `{log_dir}`: {error.strerror}") from error


TICK_SECONDS = 0.25
LATE_MS = 350


class NodeWatch:
    """Looks after the nodes of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last_ms = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look for ever."""
        self._last_ms = monotonic_ms()
        task_status.started()
        while True:
            await trio.sleep(self._pause_seconds(monotonic_ms()))
            self.look(monotonic_ms())

    def _pause_seconds(self, now_ms: int) -> float:
        """Return how long nothing will be due: a session that ends is noticed at once."""
        controller = self._cluster.office.controller
        end_ms = None if controller is None else controller.first_session_end_ms
        if end_ms is None or end_ms <= now_ms:
            return TICK_SECONDS
        return min(TICK_SECONDS, (end_ms - now_ms) / 1000)

    def look(self, now_ms: int) -> None:
        """Do what is due; the task's turn, and whoever waits for a controller, which elects one."""
        cluster = self._cluster
        if now_ms - self._last_ms > LATE_MS:
            for node_id in cluster.present():
                cluster.nodes[node_id].broker.lifecycle.beat()
        self._last_ms = now_ms
        try:
            cluster.office.tick(now_ms)
        except (OSError, KcliError) as error:
            _log.error("the controller could not do what is due: %s", error)


__all__ = ["Cluster", "ClusterOptions"]

STOP_SECONDS = 60.0
"""How long an orderly stop may take before it becomes a kill."""

GOODBYE_TURNS = 3
"""How many turns of the event loop connections get to send their last answers."""

CONTROLLER_SECONDS = 15.0
"""How long a node that starts looks for the controller."""


class Cluster:
    """The nodes of one process. Make one, `run` it in a nursery, `stop` it."""

    def __init__(self, options: ClusterOptions, *, wall_ms: Callable[[], int] = wall_ms) -> None:
        self.options = options
        self.cluster_id = ""
        self.layout = NodeLayout(options)
        self.nodes: dict[int, Node] = {}
        """The nodes that there are, dead ones too, by ascending id."""
        self.peers = LeaderEndPoints(self._find)
        """The ways between the nodes."""
        self._faults: Faults | None = None
        self._meters: Meters | None = None
        self.stopped = trio.Event()
        self.failed: dict[int, Exception] = {}
        """What nodes failed with, by node id."""
        self._wall_ms = wall_ms
        self.stop_requested = trio.Event()
        self._loading = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._engine, self._buffers = RequestEngine(APIS), ReceiveBuffers()
        self._closes_cleanly = False
        self._fatal: Exception | None = None
        self._watch = NodeWatch(self)
        self.feeds = MetadataFeeds(hears=self._hears, failed=self._node_failed)
        self.office = ControllerOffice(
            MetadataCopies(wall_ms=wall_ms, report=_log.warning),
            self.feeds,
            make=self._make_controller,
            running=self.present,
            reaches=self.reaches,
            failed=self._node_failed,
            wall_ms=wall_ms,
        )

    @property
    def brokers(self) -> list[Broker]:
        """The broker of each node, dead ones too, by ascending id."""
        return [node.broker for node in self.nodes.values()]

    @property
    def controller(self) -> Controller:
        """The controller, whatever node it is on. Raises `KcliError` while there is none."""
        if self.office.controller is None:
            raise KcliError("no node is the controller, for now", hint="try again")
        return self.office.controller

    @property
    def faults(self) -> Faults:
        """The faults that were added; imported when first asked for, as most processes have none."""
        if self._faults is None:
            from kcli.broker.faults.faults import Faults

            self._faults = Faults(self)
        return self._faults

    @property
    def meters(self) -> Meters:
        """Who measures requests; imported when first asked for, as the faults are."""
        if self._meters is None:
            from kcli.broker.metering.meters import Meters

            self._meters = Meters(self)
        return self._meters

    @property
    def stopping(self) -> bool:
        """True once `stop` was called."""
        return self.stop_requested.is_set()

    @property
    def bootstrap_servers(self) -> list[str]:
        """One `host:port` per node: the first listener that it tells clients."""
        shown = []
        for broker in self.brokers:
            if broker.endpoints:
                endpoint = broker.endpoints[0]
                host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
                shown.append(f"{host}:{endpoint.port}")
        return shown

    def stop(self) -> None:
        """Begin an orderly stop; `run` returns when it is done."""
        self.stop_requested.set()
        self._loading.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start every node, serve until `stop`, then stop them in order. Cancelling it is a kill.

        It counts as started when every listener accepts, or when `stop` came first. Raises `KcliError` for
        directories, ports and properties that cannot be used, and whatever the last node failed with.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                with self._loading:
                    await self._start_all()
                is_complete = not self._loading.cancelled_caught
                task_status.started()
                await self.stop_requested.wait()
                await self._say_goodbye()
                self._closes_cleanly = is_complete
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                for node in self.nodes.values():
                    await self._end(node)
                    node.give_up_ports()
            if self._faults is not None:
                self._faults.clear_all()  # A disk that was filled on purpose would stay full.
            self.stopped.set()
        if self._fatal is not None:
            raise self._fatal

    # --- what the nodes are to one another -------------------------------------------------------

    def present(self) -> list[int]:
        """Return the nodes that the controller can count on: alive and not paused."""
        return [node_id for node_id, _ in self.office.copies if not self.nodes[node_id].broker.is_paused]

    def reaches(self, one: int, other: int) -> bool:
        """True if two nodes reach each other."""
        if one == other:
            return True
        return not (self.peers.between(one, other).is_cut or self.peers.between(other, one).is_cut)

    def _hears(self, node_id: int) -> bool:
        """True if the controller can tell a node of the metadata now."""
        holder = self.office.holder
        return node_id in self.present() and (holder is None or self.reaches(holder, node_id))

    def _find(self, node_id: int) -> Broker | None:
        """Return the broker of a node that is alive."""
        node = self.nodes.get(node_id)
        return node.broker if node is not None and node.is_alive else None

    # --- start -----------------------------------------------------------------------------------

    async def _start_all(self) -> None:
        nodes = open_nodes(self)
        controller = open_office(self, [node.node_id for node in nodes])
        for node in nodes:
            node.broker.register(with_process=True)
            if self.options.adopt:
                adopt(controller, node.config, node.log_dirs)
        for node in nodes:
            await node.broker.load(self.feeds)
            if self.options.adopt:
                skip_adopted_producers(controller, node.broker)
        assert self._nursery is not None
        for node in nodes:
            await self._nursery.start(self._serve, node)
        nodes_came_up(
            controller,
            {node.node_id: node.broker.epoch for node in nodes},
            nodes[0].broker.config.topic_defaults,
        )
        for node in nodes:
            await node.broker.accept()
        self.office.observe(ClusterEvents(self.feeds.latest).follow)
        await self._nursery.start(self._watch.run)

    def new_node(self, config: BrokerConfig) -> Node:
        """Add a node, which is dead until it is started."""
        node = self.nodes[config.node_id] = Node(config, self.layout.log_dirs(config), self._make_broker)
        return node

    def _make_broker(self, config: BrokerConfig, log_dirs: tuple[str, ...]) -> Broker:
        broker = Broker(
            config,
            log_dirs,
            cluster_id=self.cluster_id,
            engine=self._engine,
            buffers=self._buffers,
            wall_ms=self._wall_ms,
            peers=self.peers,
            controller_link=ControllerLink(config.node_id, self.office),
        )
        if self._faults is not None:
            self._faults.attend(broker)
        if self._meters is not None:
            self._meters.attend(broker)
        return broker

    def _make_controller(self, node_id: int, journal: Journal, image: MetadataImage) -> Controller:
        config = self.nodes[node_id].broker.config
        self.office.fetch_timeout_ms = config.controller_quorum_fetch_timeout_ms
        return Controller(
            journal,
            image,
            random=Random(),
            topic_defaults=config.topic_defaults,
            settings=view(ControllerSettings, config),
            node_id=node_id,
        )

    async def start_node(self, node: Node) -> None:
        """Start a node that is dead, while the others go on. Raises `KcliError`."""
        assert self._nursery is not None
        node.open(lost_directory_ids(self, [node.node_id]).get(node.node_id))
        try:
            open_copy(self, node)
            self.failed.pop(node.node_id, None)
            await self._register(node.broker)
            await node.broker.load(self.feeds)
            await self._nursery.start(self._serve, node)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._end(node)
            raise
        node.broker.lifecycle.beat()
        await node.broker.accept()
        if node.failure is not None:
            raise KcliError(f"node {node.node_id} has failed: {failure_reason(node.failure)}")

    async def _register(self, broker: Broker) -> None:
        """Register a node with the controller, which may still have to be elected."""
        with trio.move_on_after(CONTROLLER_SECONDS):
            while True:
                # Not the office itself: a process that was held up must take nobody for silent.
                self._watch.look(monotonic_ms())
                try:
                    return broker.register(with_process=False)
                except KafkaError as error:
                    if error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                    refusal = error
                await trio.sleep(broker.config.broker_heartbeat_interval_ms / 1000)
        raise KcliError(f"node {broker.node_id} cannot register: {refusal.message}")

    # --- service ---------------------------------------------------------------------------------

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
        """Have a node end for an error that somebody else met on its behalf."""
        self.nodes[node_id].broker.fail(error)

    def _note_failure(self, node: Node, error: Exception) -> None:
        node.failure = self.failed[node.node_id] = error
        node.ended_by = "failed"
        _log.error("node %d has failed: %s", node.node_id, failure_reason(error))
        if not is_expected(error):
            _log.error("this is a bug", exc_info=error)

    # --- end -------------------------------------------------------------------------------------

    async def _end(self, node: Node) -> None:
        """Let go of everything that a node has; nothing happens if it is dead."""
        if node.ended.is_set():
            return
        is_clean = node.ended_by == "stopped" or (self._closes_cleanly and node.failure is None)
        node.broker.state = NodeState.DEAD
        self._leave(node)
        with trio.move_on_after(STOP_SECONDS) as scope:
            close = partial(node.broker.close, clean=is_clean)
            await trio.to_thread.run_sync(close, abandon_on_cancel=True)
        if scope.cancelled_caught:
            _log.error("node %d did not close its logs in %g s", node.node_id, STOP_SECONDS)
        node.ended.set()

    def _leave(self, node: Node) -> None:
        """Take a node that has ended out of everything that the others look at."""
        node_id = node.node_id
        self.feeds.remove(node_id)
        self.peers.node_died(node_id)
        try:
            self.office.copies.close(node_id)
        except OSError as error:
            _log.error("cannot close the metadata log of node %d: %s", node_id, error.strerror)
        if self._nursery is None or self.stopping:
            return
        self.office.node_gone(node_id, monotonic_ms())
        if node.failure is None:
            return
        if not any(other.is_alive for other in self.nodes.values()):
            self._fatal = node.failure
            _log.error("the process ends: no node is left")
            self.stop()
        elif self.office.controller is not None:
            try:
                self.office.controller.fence_broker(node_id=node_id, epoch=node.broker.epoch)
            except KafkaError as error:
                _log.error("node %d is not fenced: %s", node_id, error.message)

    async def _say_goodbye(self) -> None:
        """Have the coordinators answer whoever waits, and let the answers leave."""
        for node in self.nodes.values():
            if node.is_alive:
                node.broker.stop_coordinating()
        for _ in range(GOODBYE_TURNS):
            await trio.lowlevel.checkpoint()
