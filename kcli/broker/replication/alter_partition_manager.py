"""AlterPartitionManager: sends the ISR changes of a node's leaders to the controller (KIP-497).

One request is in flight at a time, with at most one change for each partition; later changes go into the next
request. A request that fails as a whole is sent again (class `DefaultAlterPartitionManager`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kcli.broker.replication.partition import IsrChange
    from kcli.protocol.messages.alter_partition import AlteredPartition, AlterPartitionResponse
    from kcli.protocol.topics import TopicPartition

RETRY_SECONDS = 0.05
_log = logging.getLogger(__name__)

_RETRIED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER})


class AlterPartitionManager:
    """The changes of node `node_id`; `send` sends a request to the controller."""

    def __init__(
        self,
        node_id: int,
        *,
        broker_epoch: Callable[[], int],
        send: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._waiting: dict[TopicPartition, IsrChange] = {}
        self._wanted = trio.Event()

    def submit(self, change: IsrChange) -> None:
        """Send a change as soon as possible."""
        self._waiting[change.partition.key] = change
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send submitted changes, until cancelled."""
        task_status.started()
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            changes = {key: change for key, change in self._waiting.items() if change.is_pending}
            self._waiting = {}
            if changes and not await self.settle(changes):
                self._waiting = {**changes, **self._waiting}
                self._wanted.set()
                await trio.sleep(RETRY_SECONDS)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    async def settle(self, changes: dict[TopicPartition, IsrChange]) -> bool:
        """Send changes and act on the answers; return False if all must be sent again."""
        try:
            response = await self._send(self._encode(changes.values()))
        except KcliError as error:
            _log.debug("in-sync replicas could not be changed yet: %s", error.message)
            return False
        if response.error_code != ErrorCode.NONE:
            return False
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for key, change in changes.items():
            answer = answers.get((change.partition.topic_id, key[1]))
            if answer is not None and answer.error_code in _RETRIED:
                self._waiting.setdefault(key, change)
                self._wanted.set()
            elif answer is not None:
                self._settle(change, answer)
        return True

    def _settle(self, change: IsrChange, answer: AlteredPartition) -> None:
        if answer.error_code == ErrorCode.NONE:
            change.accept(answer)
        elif answer.error_code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
            change.refuse()
        else:
            # The controller knows more than this node; the metadata will follow.
            key = change.partition.key
            _log.info("in-sync replicas of %s-%d wait for the metadata: error %d", *key, answer.error_code)

    def _encode(self, changes: Iterable[IsrChange]) -> AlterPartitionRequest:
        topics: dict[bytes, TopicData] = {}
        for change in changes:
            topic_id = change.partition.topic_id
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                PartitionData(
                    partition_index=change.partition.index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=node_id, broker_epoch=epoch)
                        for node_id, epoch in change.members.items()
                    ],
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )
