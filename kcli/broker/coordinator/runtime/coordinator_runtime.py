"""CoordinatorRuntime: the shards of one coordinator on one node (Kafka class `CoordinatorRuntime`).

It follows the metadata. When this node becomes leader of a partition of the coordinator's topic, the runtime
creates a shard and replays the partition's log into it, page by page; when the node is no longer leader, the
runtime closes the shard. A shard whose log is being read answers COORDINATOR_LOAD_IN_PROGRESS. A load that
goes on after its shard was closed changes only that closed shard.

`ask` passes a request to a shard and performs its effects. Requests that are answered at once, such as
heartbeats, and commits with one replica, need no task and no wait.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from kcli.broker.coordinator.effects import Now
from kcli.broker.coordinator.runtime.loader import load
from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse, PendingAppend, Shard, ShardHost
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import partition_for
from kcli.storage.disk import is_shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.broker.coordinator.effects import Effect
    from kcli.broker.coordinator.runtime.loader import Decode
    from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager

S = TypeVar("S", bound=Shard)

LOAD_RETRY_SECONDS, MOST_LOAD_RETRY_SECONDS = 1, 30
"""The delay before an unreadable log is read again; it doubles each time."""

_log = logging.getLogger(__name__)


def _refuse_message(message: object) -> None:
    raise TypeError(f"a coordinator without a receiver has sent {message!r}")


class CoordinatorRuntime(Generic[S]):
    """One coordinator on one node. `run` loads shards; `stop` ends it in order.

    `new_shard(index, leader_epoch)` makes the shard of a partition. `send` takes what shards `Send`.
    """

    def __init__(
        self,
        topic: str,
        *,
        new_shard: Callable[[int, int], S],
        sweep: Callable[[S, Now], list[Effect]],
        decode: Decode,
        settings: CoordinatorSettings,
        replica_manager: ReplicaManager,
        wall_ms: Callable[[], int],
        send: Callable[[Any], None] = _refuse_message,
    ) -> None:
        self.topic = topic
        self._new_shard = new_shard
        self._sweep = sweep
        self._decode = decode
        self._settings = settings
        self._replica_manager = replica_manager
        self._purgatory = replica_manager.purgatory
        self._wall_ms = wall_ms
        self._send = send
        self._hosts: dict[int, ShardHost[S]] = {}
        self._to_load: dict[ShardHost[S], None] = {}
        self._nursery: trio.Nursery | None = None
        self._is_stopped = False
        self._first_partition_count: int | None = None
        self._refusal: str | None = None
        """Why all requests are refused, if they are."""

    def partition_for(self, name: str) -> int:
        """Return the partition of a group, or of a transactional id."""
        return _hash_of(name) % self.partition_count

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have."""
        image = self._replica_manager.image
        topic = None if image is None else image.topics.get(self.topic)
        return self._settings.partitions if topic is None else len(topic.partitions)

    def shard(self, index: int) -> S:
        """Return the shard of a partition, to read from it.

        Raises `KafkaError` COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self._host(index).shard

    def shards(self) -> Iterator[S]:
        """Yield the loaded shards of this node, then raise, as `shard` does, if another is loading."""
        loading = None
        if self._is_stopped:
            raise _stopping()
        for index, host in self._hosts.items():
            if host.is_loaded:
                yield host.shard
            else:
                loading = index
        if loading is not None:
            self._host(loading)

    def every_shard(self) -> Iterator[S]:
        """Yield the shards of this node, those that are still loading too."""
        for host in self._hosts.values():
            yield host.shard

    def ask_for(
        self,
        name: str,
        event: Callable[[S, Now, CoordinatorResponse], list[Effect]],
        shape: Callable[[Any], Any] | None = None,
    ) -> Any:  # noqa: ANN401 - as `ask`
        """Pass a request to the shard of a group; otherwise as `ask`."""
        return self.ask(self.partition_for(name), event, shape)

    def ask(
        self,
        index: int,
        event: Callable[[S, Now, CoordinatorResponse], list[Effect]],
        shape: Callable[[Any], Any] | None = None,
    ) -> Any:  # noqa: ANN401 - the response, or the operation that waits for it
        """Pass a request to the shard of a partition.

        Returns the response, or a `CoordinatorResponse` for the request engine to park on. `shape` turns the
        shard's reply into the handler's response. Raises `KafkaError` as `shard` does.
        """
        host = self._host(index)
        response = CoordinatorResponse(shape)
        now = self.now()
        host.perform(event(host.shard, now, response), now)
        return response.finish() if response.ended else response

    def perform_on(
        self,
        index: int,
        event: Callable[[S, Now], list[Effect]],
        *,
        leader_epoch: int | None = None,
    ) -> None:
        """Tell the shard of a partition something that no request waits for.

        Does nothing if this node has no such shard, or one that it opened in another leader epoch.
        """
        host = self._hosts.get(index)
        if host is not None and host.is_loaded and leader_epoch in {None, host.leader_epoch}:
            now = self.now()
            host.perform(event(host.shard, now), now)

    def unsettled(self, name: str) -> CoordinatorResponse | None:
        """Return an operation that ends when everything read of a group is committed; None if it is.

        A new leader may not have what is not committed. The reply is None, or the `KafkaError` that prevented
        the commit.
        """
        host = self._hosts.get(self.partition_for(name))
        return None if host is None or not host.is_loaded else host.unsettled()

    async def wait(self, response: CoordinatorResponse) -> Any:  # noqa: ANN401 - as above
        await self._purgatory.wait(response)
        return response.finish()

    def _host(self, index: int) -> ShardHost[S]:
        if self._is_stopped:
            raise _stopping()
        if self._refusal is not None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, self._refusal)
        host = self._hosts.get(index)
        if host is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this node does not lead {self.topic}-{index}")
        if not host.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{index} is still loading")
        return host

    def now(self) -> Now:
        return Now(monotonic_ms(), self._wall_ms())

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply an image that the replica manager has applied."""
        if self._is_stopped:
            return
        topics = (*delta.created_topics, *delta.changed_topics, *delta.deleted_topics)
        if any(topic.name == self.topic for topic in topics):
            if self._settings.keeps_partition_count:
                self._check_partition_count(image)
            self._follow_leadership(image)
        if delta.is_empty:
            return
        for host in list(self._hosts.values()):
            if host.is_loaded:
                self._try(host, partial(host.tell, delta))

    def review_leadership(self) -> None:
        """Close and open shards, but later: the append of a shard may have failed its directory."""
        self._purgatory.timer.call_soon(self._review)

    async def _review(self) -> None:
        image = self._replica_manager.image
        if image is not None and not self._is_stopped:
            self._follow_leadership(image)
        await trio.lowlevel.checkpoint()

    def _check_partition_count(self, image: MetadataImage) -> None:
        topic = image.topics.get(self.topic)
        count = None if topic is None else len(topic.partitions)
        if count is None or self._first_partition_count is None:
            self._first_partition_count, self._refusal = count, None
        elif count != self._first_partition_count and self._refusal is None:
            why = (
                f"the number of partitions of {self.topic} has changed from {self._first_partition_count}"
                f" to {count}"
            )
            _log.error("%s: its coordinator refuses all requests until the next start", why)
            self._refusal = why

    def _follow_leadership(self, image: MetadataImage) -> None:
        partitions = self._replica_manager.partitions
        for index, host in list(self._hosts.items()):
            if partitions.get(host.partition.key) is not host.partition or not host.partition.is_leader:
                del self._hosts[index]
                self._close(host)
        topic = image.topics.get(self.topic)
        for index in range(0 if topic is None else len(topic.partitions)):
            partition = partitions.get((self.topic, index))
            if partition is not None and partition.is_leader and index not in self._hosts:
                self._open(index, partition)

    def _open(self, index: int, partition: Partition) -> None:
        host = self._hosts[index] = ShardHost(
            self._new_shard(index, partition.leader_epoch),
            partition,
            purgatory=self._purgatory,
            clock=self.now,
            settings=self._settings,
            flush=partial(self._flush_soon, partition),
            sweep=self._sweep,
            send=self._send,
        )
        if partition.log.log_start_offset == partition.log.log_end_offset:
            self._begin(host)  # Nothing to read: a new topic answers the first request.
        elif self._nursery is None:
            self._to_load[host] = None
        else:
            self._nursery.start_soon(self._load, host)

    def _begin(self, host: ShardHost[S]) -> None:
        if not self._try(host, host.begin):
            del self._hosts[host.partition.index]
            self._close(host)

    def _close(self, host: ShardHost[S]) -> None:
        self._to_load.pop(host, None)
        self._try(host, host.close)

    def _try(self, host: ShardHost[S], call: Callable[[], None]) -> bool:
        """Call something for one shard; if it raises, the node and the other shards go on."""
        try:
            call()
        except Exception:
            _log.exception("the coordinator of %s-%d failed", *host.partition.key)
            return False
        return True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the shards that this node leads, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                for host in self._to_load:
                    nursery.start_soon(self._load, host)
                self._to_load.clear()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def _flush_soon(self, partition: Partition, pending: PendingAppend) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._flush, partition, pending)

    async def _flush(self, partition: Partition, pending: PendingAppend) -> None:
        while not pending.is_flushed:
            try:
                await self._replica_manager.group_commit.flush(partition.log)
                pending.is_flushed = True
            except KafkaError as error:
                _log.error("%s", error.message)
                if not is_shortage(error):
                    return  # The directory has failed: the shard will be closed.
                await trio.sleep(LOAD_RETRY_SECONDS)
        self._purgatory.touch(partition.key)

    async def _load(self, host: ShardHost[S]) -> None:
        """Load a shard; if its log cannot be read, try again until it can or the shard is closed."""
        delay = LOAD_RETRY_SECONDS
        while not host.is_closed:
            try:
                if await load(host, decode=self._decode, page_bytes=self._settings.load_buffer_bytes):
                    self._begin(host)
                return
            except (KafkaError, OSError) as error:
                # If the directory has failed, the shard will be closed. Other errors may be transient:
                # records were deleted during the read.
                topic, index = host.partition.key
                _log.error("cannot read %s-%d, trying again in %d s: %s", topic, index, delay, error)
            await trio.sleep(delay)
            delay = min(2 * delay, MOST_LOAD_RETRY_SECONDS)
            host.shard = self._new_shard(host.partition.index, host.leader_epoch)

    def stop(self) -> None:
        """Refuse new requests and answer the parked ones."""
        self._is_stopped = True
        hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            self._close(host)


@lru_cache(maxsize=10_000)
def _hash_of(name: str) -> int:
    """Return the cached hash of a name: nearly every request needs it, and computing it is slow."""
    return partition_for(name, 1 << 31)


def _stopping() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the node is stopping")
