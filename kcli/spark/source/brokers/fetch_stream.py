"""FetchStream: the fetch responses of a partition in the order of offsets, across changes of leaders.

    stream = FetchStream(access, partition, end, read_committed=…)
    while position < end:
        answer = stream.next(position)       # records at `position`; the next fetch is in flight already
        ...                                  # decode; the records are views, valid until the next `next`

| response                          | reaction                                                          |
|-----------------------------------|-------------------------------------------------------------------|
| records                           | returned, after the fetch behind them was sent                    |
| part of one batch                 | the limit doubles, or becomes what the batch needs                |
| nothing                           | fetch again, up to `default.api.timeout.ms` without progress      |
| a preferred replica (KIP-392)     | fetch there; out of range there: back to the leader               |
| out of range at the leader        | `OutOfRange`, with the offsets that there are                     |
| a retriable error, or no response | back-off, metadata, another connection, up to the same time limit |
| any other error                   | raised                                                            |
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from kcli.client.fetch.completed_fetch import end_of
from kcli.client.network.backoff import Backoff
from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST
from kcli.spark.source.brokers.cluster_access import offsets_at
from kcli.spark.source.brokers.fetch_connection import (
    FetchConnection,
    fetch_request,
    max_fetch_version,
    partition_data,
)
from kcli.spark.source.data_loss import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.client import Client
    from kcli.client.network.metadata import Node
    from kcli.protocol.messages.fetch import AbortedTransaction, PartitionData
    from kcli.protocol.topics import TopicPartition
    from kcli.spark.source.brokers.cluster_access import ClusterAccess

_READ_COMMITTED_VERSION = 4


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """A broker to fetch from, the version, and the partition's topic id and epoch."""

    node: Node
    version: int
    topic_id: bytes
    leader_epoch: int
    is_leader: bool = True


async def place_of(
    client: Client, partition: TopicPartition, *, read_committed: bool, replica: int = -1
) -> FetchTarget:
    """Return the leader, or that replica if it is alive; raise `KafkaError` while there is no leader."""
    cluster = await client.metadata({partition.topic})
    if partition.topic in cluster.errors:
        error = cluster.errors[partition.topic]
        raise KafkaError(error, f"{error.description}: {partition.topic}")
    leader = cluster.leader_of(partition)
    if leader is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name_of(partition)} has no leader")
    is_leader = replica == leader.leader or replica not in cluster.nodes
    node, versions = await client.node_versions(leader.leader if is_leader else replica)
    topic_id = cluster.topics[partition.topic].topic_id
    version = versions.choose(
        FetchRequest,
        min_version=_READ_COMMITTED_VERSION if read_committed else 0,
        max_version=max_fetch_version(topic_id),
    )
    return FetchTarget(node, version, topic_id, leader.leader_epoch, is_leader)


async def bounds_of(client: Client, partition: TopicPartition) -> tuple[int, int]:
    """Return the earliest and the latest offset of a partition."""
    earliest = await offsets_at(client, {partition: EARLIEST})
    latest = await offsets_at(client, {partition: LATEST})
    return earliest[partition], latest[partition]


def is_passing(error: KcliError) -> bool:
    """Return whether another attempt with fresh metadata may succeed.

    Unlike the list in `kcli.spark.export.failures`, it includes errors of one broker only, such as
    UNKNOWN_SERVER_ERROR.
    """
    if isinstance(error, KafkaError):
        return error.code in _PASSING
    return isinstance(error, Disconnected | Unreachable)


_PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


MAX_FETCH_BYTES = 1024 * 1024 * 1024
"""The limit grows up to this."""

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_LENGTH_END = 12
_SPARE_BYTES = 64 * 1024


class OutOfRange(KcliError):
    """The leader has offsets `earliest` up to `latest`, without the one asked for."""

    def __init__(self, earliest: int, latest: int) -> None:
        super().__init__(f"the partition has the offsets {earliest} to {latest}")
        self.earliest = earliest
        self.latest = latest


@dataclass(slots=True)
class Answer:
    """Entries; the first complete one contains or follows the offset asked for."""

    records: memoryview
    aborted: list[AbortedTransaction] | None
    following: int
    """The offset of the next fetch, by the sizes of the entries."""
    address: str


class FetchStream:
    """Fetches a partition up to offset `end`, one response ahead."""

    def __init__(
        self,
        access: ClusterAccess,
        partition: TopicPartition,
        end: int,
        *,
        read_committed: bool,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._partition = partition
        self._end = end
        self._read_committed = read_committed
        self._now = now
        self._sleep = sleep
        self._client = access.client_config
        self._consumer = access.consumer_config
        self._limit = access.fetch_bytes
        self._backoff = Backoff(self._client.retry_backoff_ms, self._client.retry_backoff_max_ms)
        self._connection: FetchConnection | None = None
        self._place: FetchTarget | None = None
        self._replica = -1
        self._in_flight: int | None = None
        self._bytes_per_offset = 0.0
        self._asked = 0

    def next(self, position: int) -> Answer:
        """Return records from `position` on, which is before the end; raise errors that do not pass."""
        deadline = self._now() + self._client.default_api_timeout_ms / 1000
        last_error: KcliError | None = None
        while True:
            try:
                answer = self._attempt(position)
            except OutOfRange:
                raise
            except KcliError as error:
                self.close()
                if not is_passing(error) or self._now() >= deadline:
                    raise
                last_error = error
                self._sleep(self._backoff.next_delay())
                continue
            if answer is not None:
                self._backoff.reset()
                return answer
            if self._now() >= deadline:
                place = f"{name_of(self._partition)} gives nothing at offset {position}"
                raise last_error or KcliError(
                    f"{place}, before the end {self._end}",
                    hint="the log may have been truncated, or its records removed",
                )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._in_flight = None

    def _attempt(self, position: int) -> Answer | None:
        """Return the response to one fetch, None if it contains no complete entry."""
        connection = self._connection or self._connect()
        if self._in_flight is not None and self._in_flight != position:
            connection.receive()  # sent before its offset turned out to be the wrong one
            self._in_flight = None
        if self._in_flight is None:
            self._send(connection, position)
        response = connection.receive()
        self._in_flight = None
        data = partition_data(response, self._partition)
        if data.error_code:
            self._refused(ErrorCode.of(data.error_code))
        elif data.preferred_read_replica >= 0 and data.preferred_read_replica != connection.node.node_id:
            self._replica = data.preferred_read_replica
            self.close()
        elif data.records:
            return self._taken(connection, position, data)
        return None

    def _taken(self, connection: FetchConnection, position: int, data: PartitionData) -> Answer | None:
        records = memoryview(data.records or b"")
        following = end_of(records, position)
        if following == position and self._grows(records):
            return None
        self._bytes_per_offset = len(records) / max(1, following - position)
        if following < self._end:
            self._send(connection, following)
        return Answer(records, data.aborted_transactions, following, connection.node.address)

    def _grows(self, records: memoryview) -> bool:
        """Raise the limit if it is why the first entry is incomplete."""
        if len(records) < self._asked or self._limit >= MAX_FETCH_BYTES:
            return False
        needed = 0
        if len(records) >= _LENGTH_END:
            needed = _LENGTH_END + _LENGTH.unpack_from(records, _LENGTH_AT)[0]
            if needed <= len(records):
                return False
        self._limit = min(MAX_FETCH_BYTES, max(self._limit * 2, needed))
        self._bytes_per_offset = 0.0
        return True

    def _connect(self) -> FetchConnection:
        place = self._access.ask(
            lambda client: place_of(
                client, self._partition, read_committed=self._read_committed, replica=self._replica
            )
        )
        self._place = place
        self._connection = FetchConnection(
            place.node, self._client, place.version, buffer_bytes=self._limit + _SPARE_BYTES
        )
        return self._connection

    def _send(self, connection: FetchConnection, position: int) -> None:
        assert self._place is not None
        self._asked = self._max_bytes(position)
        connection.send(
            fetch_request(
                self._partition,
                self._place.topic_id,
                position,
                max_bytes=self._asked,
                leader_epoch=self._place.leader_epoch,
                read_committed=self._read_committed,
                max_wait_ms=self._consumer.fetch_max_wait_ms,
                min_bytes=self._consumer.fetch_min_bytes,
                rack=self._consumer.client_rack,
            )
        )
        self._in_flight = position

    def _max_bytes(self, position: int) -> int:
        """Return the limit, less near the end: what is behind the end is not needed."""
        if not self._bytes_per_offset:
            return self._limit
        left = (self._end - position) * self._bytes_per_offset * 1.1
        return min(self._limit, int(left) + _SPARE_BYTES)

    def _refused(self, error: ErrorCode) -> None:
        assert self._place is not None
        if error is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self._replica = -1
            raise KafkaError(error, f"cannot read {name_of(self._partition)}: {error.description}")
        if not self._place.is_leader:
            self._replica = -1
            self.close()
            return
        earliest, latest = self._access.ask(lambda client: bounds_of(client, self._partition))
        raise OutOfRange(earliest, latest)
