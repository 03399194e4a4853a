"""Node: the place of one node in the process, and the broker that runs there now, or ran last.

A dead node can start again: a new `Broker` with the same configuration, directories and ports.

| it ended by | logs | the controller |
|---|---|---|
| `stop` | flushed and marked, nothing to recover | has moved its partitions and fenced it |
| `kill` | left as they are | fences it when its session ends |
| a failure | left as they are | fences it at once |
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import trio

from kcli.broker.node_context import NodeState
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.node.broker import Broker


class ReservedPorts:
    """Keeps the ports that the system chose for a node while the node is down, so that it gets them again.

    On Linux a bound socket that does not listen stops the system from choosing its port, and nothing else:
    connections are refused, and a process that asks for this port by number may listen on it.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def keep(self, bound: socket.socket) -> None:
        """Reserve the port of a socket that does not listen yet. Raises `OSError`."""
        if sys.platform != "linux":
            return  # Elsewhere two sockets cannot be bound to one port.
        keeper = socket.socket(bound.family, bound.type)
        self._sockets.append(keeper)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            only = bound.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            keeper.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        keeper.bind(bound.getsockname())

    def close(self) -> None:
        for keeper in self._sockets:
            keeper.close()
        self._sockets.clear()


class Node:
    """One node of the process; `make` makes a broker for each of its lives."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: tuple[str, ...],
        make: Callable[[BrokerConfig, tuple[str, ...]], Broker],
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.log_dirs = log_dirs
        self._make = make
        self.broker = make(config, log_dirs)
        self.broker.state = NodeState.DEAD
        self.failure: Exception | None = None
        """The error that the node failed with."""
        self.ended_by = ""
        """`stopped`, `killed` or `failed`; empty while it has not ended, or was never started."""
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.ended.set()
        self._ports: Mapping[str, int] = {}
        self._reserved_ports = ReservedPorts()

    @property
    def state(self) -> NodeState:
        return self.broker.state

    @property
    def is_alive(self) -> bool:
        """Whether the node is not dead; a paused node is alive."""
        return self.broker.state is not NodeState.DEAD

    def refuse(self, *states: NodeState) -> None:
        """Raise `KcliError` if the node is in one of these states, which do not allow what was asked."""
        if self.state not in states:
            return
        match self.state:
            case NodeState.DEAD:
                how = f"is not running: it was {self.ended_by}" if self.ended_by else "was not started"
                raise KcliError(f"node {self.node_id} {how}", hint=f"`kcli broker node start {self.node_id}`")
            case NodeState.RUNNING:
                raise KcliError(f"node {self.node_id} is running")
            case NodeState.PAUSED:
                raise KcliError(
                    f"node {self.node_id} is paused", hint=f"`kcli broker node resume {self.node_id}`"
                )
            case state:
                raise KcliError(f"node {self.node_id} is {state.value} already", hint="wait until it is done")

    def open(self, directory_id: bytes | None = None) -> None:
        """Begin a life: lock the directories, bind the ports. Raises `KcliError`, and leaves the node dead.

        `directory_id` is for the log directory without an id, by default a new one.
        """
        self.broker = self._make(self.config, self.log_dirs)
        self.failure, self.ended_by = None, ""
        self.scope, self.ended = trio.CancelScope(), trio.Event()
        try:
            self.broker.open(self._ports, keep=self._reserved_ports.keep, directory_id=directory_id)
        except BaseException:
            self.broker.state = NodeState.DEAD
            self.broker.log_manager.directories.abandon()
            self.broker.close(clean=False)
            self.ended.set()
            if not self._ports:
                self.give_up_ports()
            raise
        self._ports = self.broker.ports

    def give_up_ports(self) -> None:
        """Release the reserved ports: the node will not start again."""
        self._reserved_ports.close()


def failure_reason(error: BaseException) -> str:
    """Return in one line why a node failed."""
    cause = _cause(error)
    return cause.message if isinstance(cause, KcliError) else repr(cause)


def is_expected(error: BaseException) -> bool:
    """Return whether the program reported the failure, so it is not a bug."""
    return isinstance(_cause(error), KcliError)


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
