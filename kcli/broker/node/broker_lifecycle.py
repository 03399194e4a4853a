"""BrokerLifecycleManager: heartbeats from a node to the controller (KIP-631).

A heartbeat that does not reach the controller is only logged, because the next one may. The first heartbeat
after a fenced node has caught up unfences it. A node that stops says so with every heartbeat: any other
heartbeat would unfence it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.broker.controller.heartbeat_control import Heartbeat
from kcli.broker.node_context import NodeState
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from kcli.broker.controller.heartbeat_control import BrokerHeartbeatReply
    from kcli.broker.node_context import NodeContext

SHUTDOWN_RETRY_SECONDS = 0.05
_log = logging.getLogger(__name__)


class BrokerLifecycleManager:
    def __init__(self, node: NodeContext) -> None:
        self._node = node

    def beat(self) -> BrokerHeartbeatReply | None:
        """Send one heartbeat; return the controller's reply, None if the controller cannot be reached."""
        node = self._node
        try:
            return node.controller.heartbeat(
                Heartbeat(
                    node.node_id,
                    node.epoch,
                    node.image.offset,
                    want_shutdown=node.state is NodeState.STOPPING,
                ),
                offline_dirs=[each.directory_id for each in node.log_manager.directories.offline],
                now_ms=monotonic_ms(),
            )
        except KafkaError as error:
            _log.debug("the controller does not hear node %d: %s", node.node_id, error.message)
            return None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send heartbeats, as often as configured, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._node.config.broker_heartbeat_interval_ms / 1000)
            await self._node.gate.passed()
            self.beat()

    async def until_relieved(self) -> bool:
        """Send heartbeats until the node may stop; return False if the controller cannot be reached.

        The controller agrees once all active nodes know the new leaders of its partitions (KIP-841).
        """
        seconds = SHUTDOWN_RETRY_SECONDS
        while self._node.state is NodeState.STOPPING:
            answer = self.beat()
            if answer is None:
                return False
            if answer.should_shut_down:
                return True
            await trio.sleep(seconds)
            seconds = min(2 * seconds, self._node.config.broker_heartbeat_interval_ms / 1000)
        return False
