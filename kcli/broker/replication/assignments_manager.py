"""AssignmentsManager: tells the controller which log directory holds each replica (KIP-858).

The controller needs this from a node with several directories: when one fails, its partitions need other
leaders. It sends only changes, again and again until they arrive (class `AssignmentsManager`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.broker.controller.directory_control import DirectoryAssignment
from kcli.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.metadata.metadata_image import PartitionRegistration
    from kcli.broker.replication.partition import Partition
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.dirs.log_manager import LogManager

RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)


class AssignmentsManager:
    """The assignments of node `node_id`; `send` sends them to the controller, or raises `KafkaError`."""

    def __init__(
        self, node_id: int, log_manager: LogManager, send: Callable[[Sequence[DirectoryAssignment]], object]
    ) -> None:
        self._node_id = node_id
        self._log_manager = log_manager
        self._send = send
        self._waiting: dict[TopicPartition, DirectoryAssignment] = {}
        self._wanted = trio.Event()

    def compare(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Send the log directory of a replica to the controller, unless the controller knows it."""
        manager = self._log_manager
        if len(manager.directories) < 2:
            return  # A single directory is known anyway.
        directory = manager.directories.of(partition.log).directory_id
        if registration.directory_of(self._node_id) != directory:
            self._waiting[partition.key] = DirectoryAssignment(partition.topic_id, partition.index, directory)
            self._wanted.set()

    async def run(self) -> None:
        """Send assignments, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            waiting, self._waiting = self._waiting, {}
            try:
                self._send(list(waiting.values()))
            except KafkaError as error:
                _log.debug("log directories could not be reported yet: %s", error.message)
                self._waiting = {**waiting, **self._waiting}
                self._wanted.set()
                await trio.sleep(RETRY_SECONDS)
