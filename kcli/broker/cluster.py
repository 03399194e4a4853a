"""Cluster: everything one process hosts: a metadata log, its controller, and the nodes.

The metadata log lies in the first log directory of the first node, which holds its lock. Nodes start one
after another: all directories and ports first, so that a mistake in any of them leaves no trace, then the
metadata, then each node's logs; only when all are loaded do the listeners accept.

A node that fails while it serves is fenced and gone; the others go on. The process ends, in order, when the
node that holds the metadata log fails, or the last one.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import trio

from kcli.broker.adoption import adopt, skip_adopted_producers
from kcli.broker.api import APIS
from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.config_warnings import ConfigWarnings
from kcli.broker.controller.controller import Controller
from kcli.broker.metadata_log import MetadataLog
from kcli.broker.metadata_replay import replay
from kcli.broker.peer_link import PeerLinks
from kcli.broker.receive_buffers import ReceiveBuffers
from kcli.broker.request_engine import RequestEngine
from kcli.errors import KcliError, UsageError
from kcli.protocol.uuids import random_uuid, uuid_to_text
from kcli.storage.log_directory import META_PROPERTIES, MetaProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_log = logging.getLogger(__name__)

STOP_SECONDS = 60.0
"""How long a stop in order may take before it becomes a kill."""

GOODBYE_TURNS = 3
"""How many turns of the loop connections get for what they still have to say."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What to start. `data_dir` None is for a temporary directory, which the process makes.

    `properties` are Kafka's broker properties and stand over `host` and `port` where they name listeners.
    """

    data_dir: Path | None
    nodes: int = 1
    host: str = "localhost"
    port: int = 9092
    properties: Mapping[str, str] = field(default_factory=dict)
    adopt: bool = False


def wall_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Cluster:
    """The nodes of one process. Make one, `run` it in a nursery, `stop` it."""

    def __init__(self, options: ClusterOptions, *, wall_ms: Callable[[], int] = wall_ms) -> None:
        self.options = options
        self.cluster_id = ""
        self.brokers: list[Broker] = []
        self.peers = PeerLinks(self._find)
        """The ways between the nodes."""
        self.stopped = trio.Event()
        self._wall_ms = wall_ms
        self._stop_requested = trio.Event()
        self._loading = trio.CancelScope()
        self._metadata_log: MetadataLog | None = None
        self._serving = False
        self._fatal: Exception | None = None
        self.failed: dict[int, Exception] = {}
        """Why nodes that served do so no more, by node id."""

    @property
    def stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stop_requested.is_set()

    @property
    def bootstrap_servers(self) -> list[str]:
        """One `host:port` per node: the first listener that it tells clients."""
        shown = []
        for broker in self.brokers:
            endpoint = broker.endpoints[0]
            host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
            shown.append(f"{host}:{endpoint.port}")
        return shown

    @property
    def data_directories(self) -> list[str]:
        """Where the data is: the data directory, or the log directories that the properties name instead."""
        paths = [directory.path for broker in self.brokers for directory in broker.log_manager.directories]
        root = str(self.options.data_dir)
        return [root] if all(path.startswith(f"{root}/") for path in paths) else paths

    def stop(self) -> None:
        """Begin to stop in order; `run` returns when it is done."""
        self._stop_requested.set()
        self._loading.cancel()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start every node, serve until `stop`, and stop in order. Cancelling it is a kill.

        Started means that every listener accepts, or that `stop` came first. Raises `KcliError` for
        directories, ports and properties that cannot be used, and what the node failed with that the process
        cannot go on without.
        """
        clean = False
        try:
            async with trio.open_nursery() as nursery:
                with self._loading:
                    await self._load()
                    for broker in self.brokers:
                        await nursery.start(self._serve, broker)
                clean = not self._loading.cancelled_caught
                self._serving = True
                task_status.started()
                await self._stop_requested.wait()
                await self._say_goodbye()
                nursery.cancel_scope.cancel()
        except BaseException:
            clean = False
            raise
        finally:
            with trio.CancelScope(shield=True):
                await self._close(clean=clean)
            self.stopped.set()
        if self._fatal is not None:
            raise self._fatal

    def _find(self, node_id: int) -> Broker | None:
        """Return a node that is there."""
        for broker in self.brokers:
            if broker.node_id == node_id and node_id not in self.failed:
                return broker
        return None

    # --- service ---------------------------------------------------------------------------------

    async def _serve(
        self, broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run a node. Its failure is its own as long as the others can go on without it."""
        try:
            await broker.run(task_status=task_status)
        except Exception as error:
            if not self._serving:
                raise
            self.failed[broker.node_id] = error
            self.peers.node_died(broker.node_id)
            _log.error("node %d has failed: %s", broker.node_id, _reason(error))
            try:
                self._leave_behind(broker)
            except KcliError as fatal:
                self._fatal = error
                _log.error("the process ends: %s", fatal.message)
                self.stop()

    def _leave_behind(self, broker: Broker) -> None:
        """Have the cluster go on without a node; raise `KcliError` if it cannot."""
        if len(self.failed) == len(self.brokers):
            raise KcliError("no node is left")
        if broker is self.brokers[0]:
            raise KcliError(f"node {broker.node_id} holds the metadata log")
        broker.leave()

    # --- start -----------------------------------------------------------------------------------

    async def _load(self) -> None:
        configs = [self._node_config(number) for number in range(1, self.options.nodes + 1)]
        directories = [self._log_dirs(config) for config in configs]
        _make(directories)
        self.cluster_id = _cluster_id(directories) or uuid_to_text(random_uuid())
        engine, buffers = RequestEngine(APIS), ReceiveBuffers()
        for config, log_dirs in zip(configs, directories, strict=True):
            for warning in config.warnings:
                _log.warning(warning)
            broker = Broker(
                config,
                log_dirs,
                cluster_id=self.cluster_id,
                engine=engine,
                buffers=buffers,
                wall_ms=self._wall_ms,
                peers=self.peers,
            )
            self.brokers.append(broker)
            broker.open()
        controller = self._open_controller(directories[0][0])
        controller.subscribe(ConfigWarnings(controller.image).follow)
        self.brokers[0].metadata_directory = directories[0][0]
        for broker, log_dirs in zip(self.brokers, directories, strict=True):
            broker.register(controller)
            if self.options.adopt:
                adopt(controller, broker.config, log_dirs)
        for broker in self.brokers:
            await broker.load()
            if self.options.adopt:
                skip_adopted_producers(controller, broker)

    def _node_config(self, number: int) -> BrokerConfig:
        properties = dict(self.options.properties)
        if self.options.nodes > 1:
            for name in ("node.id", "broker.id", "log.dirs", "log.dir", "listeners", "advertised.listeners"):
                if name in properties:
                    raise UsageError(f"`{name}` is for one node, `--nodes` is {self.options.nodes}")
            properties["node.id"] = str(number)
        if "listeners" not in properties:
            port = self.options.port + number - 1 if self.options.port else 0
            host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
            properties["listeners"] = f"PLAINTEXT://{host}:{port}"
        return BrokerConfig.from_properties(properties)

    def _log_dirs(self, config: BrokerConfig) -> tuple[str, ...]:
        if config.log_directories:
            return config.log_directories
        assert self.options.data_dir is not None
        return (str(self.options.data_dir / f"node-{config.node_id}"),)

    def _open_controller(self, log_dir: str) -> Controller:
        try:
            self._metadata_log = MetadataLog.open(
                log_dir,
                node_id=self.brokers[0].node_id,
                wall_ms=self._wall_ms,
                report=_log.warning,
            )
            controller = Controller(
                self._metadata_log,
                replay(self._metadata_log.replay()),
                random=Random(),
            )
            controller.begin_term()
        except OSError as error:
            raise KcliError(f"cannot open the metadata log in `{log_dir}`: {error.strerror}") from error
        return controller

    # --- stop ------------------------------------------------------------------------------------

    async def _say_goodbye(self) -> None:
        """Have the coordinators answer whoever waits, and let the answers leave."""
        for broker in self.brokers:
            broker.stop_coordinating()
        for _ in range(GOODBYE_TURNS):
            await trio.lowlevel.checkpoint()

    async def _close(self, *, clean: bool) -> None:
        for broker in self.brokers:
            with trio.move_on_after(STOP_SECONDS) as scope:
                close = partial(broker.close, clean=clean and broker.node_id not in self.failed)
                await trio.to_thread.run_sync(close, abandon_on_cancel=True)
            if scope.cancelled_caught:
                _log.error("node %d did not close its logs in %g s", broker.node_id, STOP_SECONDS)
        if self._metadata_log is not None:
            try:
                self._metadata_log.close()
            except OSError as error:
                _log.error("cannot close the metadata log: %s", error)


def _reason(error: Exception) -> str:
    """Return why a node failed, in one line; what nobody expected is logged whole."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, KcliError):
        return error.message
    _log.error("this is a bug", exc_info=error)
    return repr(error)


def _make(directories: Sequence[tuple[str, ...]]) -> None:
    """Make the first directory of each node, whose absence would only be noticed one by one."""
    for log_dirs in directories:
        for log_dir in log_dirs:
            try:
                os.makedirs(log_dir, exist_ok=True)
            except OSError as error:
                _log.error("cannot make the log directory `%s`: %s", log_dir, error.strerror)


def _cluster_id(directories: Sequence[tuple[str, ...]]) -> str | None:
    """Return the cluster id that the directories were made with, None if they are new."""
    for log_dir in (log_dir for log_dirs in directories for log_dir in log_dirs):
        path = f"{log_dir}/{META_PROPERTIES}"
        try:
            with open(path, "rb") as file:
                cluster_id = MetaProperties.decode(file.read(), path).cluster_id
        except OSError:
            continue  # a new directory, or one that goes offline as soon as it is opened
        if cluster_id is not None:
            return cluster_id
    return None
