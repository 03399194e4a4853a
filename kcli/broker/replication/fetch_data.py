"""FetchPartition: what a fetch asks of one partition. FetchedPartition: the result of reading it.

Both are made once for each partition and request: slots, no dataclass, no defaults to look up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import FileSlice


class FetchPartitionKey(NamedTuple):
    """A partition in a fetch session: by topic id, or by name with the zero id."""

    topic_id: bytes
    topic: str | None
    partition: int


def partition_key(topic: str | None, topic_id: bytes, index: int) -> FetchPartitionKey:
    """Return the key of a partition; an id makes the name irrelevant."""
    if topic_id != ZERO_UUID:
        return FetchPartitionKey(topic_id, None, index)
    return FetchPartitionKey(ZERO_UUID, topic, index)


class FetchPartition:
    """One requested partition. It lives as long as its request or its session.

    `topic` is None while `topic_id` is unknown. `sent_high_watermark` and `sent_log_start_offset` are those
    of the session's last response, -1 before the first.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    @property
    def key(self) -> FetchPartitionKey:
        return partition_key(self.topic, self.topic_id, self.index)

    def update(self, newer: FetchPartition) -> None:
        """Take over the values of a later request for the same partition."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset


class FetchedPartition:
    """The offsets and records of one partition, or an error.

    `records` is a slice of a segment file, bytes after a conversion, or None; `size` is its length in bytes.
    `aborted` lists the aborted transactions for a read_committed reader and is None for others. `diverging`
    is (epoch, end offset) when the fetcher must truncate (KIP-595). `current_leader` is (leader id, leader
    epoch) when the fetcher asked the wrong broker (KIP-951).
    """

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "request",
        "size",
    )

    def __init__(self, request: FetchPartition, error_code: int = 0) -> None:
        self.request = request
        self.error_code = error_code
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted: list[AbortedTransaction] | None = None
        self.preferred_read_replica = -1
        self.records: FileSlice | bytes | None = None
        self.size = 0
        self.diverging: tuple[int, int] | None = None
        self.current_leader: tuple[int, int] | None = None
