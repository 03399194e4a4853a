"""FakeConsumerGroup: fake brokers with the real, pure coordinator, in the test's virtual time.

Every request runs its due timers. `offsets` returns the committed offsets of the group `g`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.coordinator.group import ClientInfo
from kcli.protocol.messages.offset_fetch import OffsetFetchResponse
from tests.broker.coordinator.virtual_consumers import VirtualConsumers

if TYPE_CHECKING:
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
    from kcli.protocol.messages.offset_commit import OffsetCommitResponse
    from tests.client.fake_brokers import FakeBrokers

APIS = ("ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch")
CLIENT = ClientInfo("kcli", "/127.0.0.1")


class FakeConsumerGroup(VirtualConsumers):
    """The coordinator of some fake brokers, whichever of them is asked."""

    def __init__(self, brokers: FakeBrokers, **config: Any) -> None:
        super().__init__({}, **config)
        self._brokers = brokers
        brokers.topic_id = self._topic_id  # type: ignore[method-assign]
        self.topics(**{name: len(partitions) for name, partitions in brokers.topics.items()})
        for api in APIS:
            setattr(brokers, f"_{api}Request", getattr(self, f"_{api}"))

    def add_topic(self, name: str, count: int) -> None:
        """Create a topic, or create a deleted one anew, everywhere."""
        self._brokers.add_topic(name, count)
        self.topics(**{name: count})

    def delete_topic(self, name: str) -> None:
        """Delete a topic everywhere."""
        del self._brokers.topics[name]
        self.topics(**{name: 0})

    def _topic_id(self, name: str) -> bytes:
        return self.image.topics[name].topic_id

    def _catch_up(self) -> None:
        self.advance(1_000_000 + round(trio.current_time() * 1000) - self.now_ms)

    def _ConsumerGroupHeartbeat(
        self, node_id: int, request: Any, version: int
    ) -> ConsumerGroupHeartbeatResponse:
        self._catch_up()
        return self.call(  # type: ignore[no-any-return]
            "heartbeat",
            lambda now, call: self.shard.consumer_group_heartbeat(now, call, request, version, CLIENT),
        ).response

    def _OffsetCommit(self, node_id: int, request: Any, version: int) -> OffsetCommitResponse:
        self._catch_up()
        return self.call(  # type: ignore[no-any-return]
            "commit", lambda now, call: self.shard.offset_commit(now, call, request, version)
        ).response

    def _OffsetFetch(self, node_id: int, request: Any, version: int) -> OffsetFetchResponse:
        self._catch_up()
        return OffsetFetchResponse(groups=[self.shard.offset_fetch(group) for group in request.groups])
