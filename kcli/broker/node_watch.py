"""NodeWatch: the one task that has the controller look after the nodes: sessions, successors, copies.

The task may run late, because the process was busy or suspended as a whole. The nodes could not send
heartbeats either then, so none is taken for dead: each gets to send one first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.broker.timer import monotonic_ms
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.cluster import Cluster

TICK_SECONDS = 0.25
LATE_MS = 350
_log = logging.getLogger(__name__)


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
                cluster.nodes[node_id].broker.heartbeats.beat()
        self._last_ms = now_ms
        try:
            cluster.office.tick(now_ms)
        except (OSError, KcliError) as error:
            _log.error("the controller could not do what is due: %s", error)
