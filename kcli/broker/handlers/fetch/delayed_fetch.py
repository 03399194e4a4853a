"""DelayedFetch: a fetch that waits for `min_bytes` of records, or for a reason to answer at once.

It stores for each partition how many bytes there were to read at its last change; a touch counts only that
partition anew. The logs are read only when the response is due (class `DelayedFetch` of Kafka).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.waiting.purgatory import DelayedOperation
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable

    from kcli.broker.replication.fetch_data import FetchedPartition, FetchPartition
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import FetchParams, ReplicaManager

Fetched = FetchResponse | bytes | list[Any]
"""A response, or its body, in parts if some of it is in files."""


class _Watched:
    """One partition of the request, as it was when the fetch was parked."""

    __slots__ = ("leader_epoch", "partition", "readable", "request")

    def __init__(self, request: FetchPartition, partition: Partition, readable: int) -> None:
        self.request = request
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.readable = readable


class DelayedFetch(DelayedOperation):
    """A fetch of `rows`, none with an error; `respond` reads again and makes the response."""

    __slots__ = (
        "_from_leader_only",
        "_isolation",
        "_min_bytes",
        "_readable",
        "_replica_manager",
        "_respond",
        "_watched",
    )

    def __init__(
        self,
        replica_manager: ReplicaManager,
        rows: Iterable[FetchedPartition],
        *,
        min_bytes: int,
        reader: FetchParams,
        respond: Callable[[], Fetched | Coroutine[None, None, Fetched]],
    ) -> None:
        super().__init__()
        self._replica_manager = replica_manager
        self._min_bytes = min_bytes
        self._isolation = reader.isolation
        self._from_leader_only = reader.from_leader_only
        self._respond = respond
        self._watched: dict[Hashable, _Watched] = {}
        self._readable = 0
        for row in rows:
            request = row.request
            key = (request.topic, request.index)
            partition = replica_manager.partitions[key]  # type: ignore[index]  # a row without error has one
            self._watched[key] = _Watched(request, partition, row.size)
            self._readable += row.size

    @property
    def watched_keys(self) -> Iterable[Hashable]:
        """The partitions whose change may complete the fetch."""
        return self._watched.keys()

    def try_complete(self, key: Hashable) -> bool:
        watched = self._watched[key]
        partition = watched.partition
        if (
            self._replica_manager.partitions.get(partition.key) is not partition
            or partition.leader_epoch != watched.leader_epoch
            or (self._from_leader_only and not partition.is_leader)
        ):
            return True
        offset = watched.request.fetch_offset
        limit = partition.limit(self._isolation)
        if limit <= offset:
            # Truncated below the position, or nothing new.
            return limit < offset and partition.log.log_end_offset < offset
        if self._min_bytes <= 1:
            return True
        try:
            readable, ends_here = partition.readable(offset, watched.request.max_bytes, self._isolation)
        except KafkaError:
            return True
        self._readable += readable - watched.readable
        watched.readable = readable
        # A slice cannot span segments, so an older segment never yields more than its rest.
        return self._readable >= self._min_bytes or not ends_here

    def finish(self) -> Fetched | Coroutine[None, None, Fetched]:
        return self._respond()
