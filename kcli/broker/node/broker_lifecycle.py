"""Heartbeats: a node tells the controller that it is alive, and learns whether it is fenced (KIP-631).

A beat that does not reach the controller is only logged: the next one may. A node that was fenced need not do
anything about it: the first beat after it has caught up unfences it. One that stops says so with every beat
(class `BrokerLifecycleManager`): any other would bring it back when it has just been let go.

NodeState: what a node of this process is doing.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from kcli.broker.controller.heartbeat_control import HeartbeatAnswer
    from kcli.broker.node.broker import Broker


class NodeState(Enum):
    """The life of a node; its value is what people are shown.

    | state | what it does | next |
    |---|---|---|
    | STARTING | loads its logs; fenced, its listeners accept nothing | RUNNING, DEAD |
    | RUNNING | serves | PAUSED, STOPPING, DEAD |
    | PAUSED | nothing, as after SIGSTOP: its sockets are open, nobody is answered | RUNNING, DEAD |
    | STOPPING | hands over what it leads, then closes | DEAD |
    | DEAD | is not there; another may start in its place | STARTING |
    """

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    DEAD = "dead"


SHUTDOWN_RETRY_SECONDS = 0.05
_log = logging.getLogger(__name__)


class Heartbeats:
    """The heartbeats of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def beat(self) -> HeartbeatAnswer | None:
        """Send one heartbeat; return what the controller answers, None if it does not."""
        broker = self._broker
        try:
            return broker.controller.heartbeat(
                node_id=broker.node_id,
                epoch=broker.epoch,
                applied_offset=broker.image.offset,
                want_shutdown=broker.state is NodeState.STOPPING,
                offline_dirs=[each.directory_id for each in broker.log_manager.directories.offline],
                now_ms=monotonic_ms(),
            )
        except KafkaError as error:
            _log.debug("the controller does not hear node %d: %s", broker.node_id, error.message)
            return None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Beat for ever, as often as configured."""
        task_status.started()
        while True:
            await trio.sleep(self._broker.config.broker_heartbeat_interval_ms / 1000)
            await self._broker.gate.passed()
            self.beat()

    async def until_relieved(self) -> bool:
        """Beat until the controller lets the stopping node go; return False if none is in reach.

        What the node led is led by others then, and all of them know (KIP-841).
        """
        seconds = SHUTDOWN_RETRY_SECONDS
        while self._broker.state is NodeState.STOPPING:
            answer = self.beat()
            if answer is None:
                return False
            if answer.should_shut_down:
                return True
            await trio.sleep(seconds)
            seconds = min(2 * seconds, self._broker.config.broker_heartbeat_interval_ms / 1000)
        return False
