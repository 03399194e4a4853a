"""Partition: one node's replica of a partition: leader or follower, ISR, high watermark (class `Partition`).

What the controller decided comes in as a `PartitionRegistration`; what clients and followers do comes in as
appends and reads. Everything here is synchronous: between checking leadership and moving the log's end
nothing else runs.

Rules:

* only the leader appends, and only it tracks the ISR; a request with an older leader epoch is fenced (74),
  one with a newer epoch knows more than this node (75);
* the leader's high watermark is the lowest log end over the ISR. It stands still while the ISR is smaller
  than `min.insync.replicas`, capped by the number of replicas (KIP-966);
* consumers read below the high watermark, or the last stable offset; between that and the log end there is
  nothing, not an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.fetch_data import FetchedPartition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log_read import Isolation
from kcli.storage.plain_append import NOT_PLAIN, append_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from kcli.broker.fetch_data import FetchPartition
    from kcli.broker.metadata_image import PartitionRegistration
    from kcli.storage.append_info import AppendInfo
    from kcli.storage.file_records import WriteAhead
    from kcli.storage.log_validator import ValidatedRecords
    from kcli.storage.unified_log import UnifiedLog

NO_EPOCH = -1
ACKS_ALL = -1
PartitionId = tuple[str, int]


class Partition:
    """A replica on this node. `key` is (topic, index), under which operations wait in the purgatory."""

    __slots__ = (
        "_touch",
        "index",
        "is_alone",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "log",
        "node_id",
        "partition_epoch",
        "remote_log_ends",
        "replicas",
        "topic",
        "topic_id",
        "writing",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        *,
        node_id: int,
        log: UnifiedLog,
        touch: Callable[[PartitionId], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.key: PartitionId = (topic, index)
        self.node_id = node_id
        self.log = log
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.is_alone = False
        """Whether an append is replicated by itself: this node leads and has the only replica."""
        self.remote_log_ends: dict[int, int] = {}
        """Follower -> the log end it last fetched at; empty until it has fetched."""
        self.writing: trio.Event | None = None
        """Set while a thread writes to the log: whoever wants to append waits for it."""
        self._touch = touch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the partition."""
        return self.leader == self.node_id

    @property
    def min_isr(self) -> int:
        """How many replicas must be in sync for an acks=all write."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    # --- roles -----------------------------------------------------------------------------------

    def apply(self, registration: PartitionRegistration) -> None:
        """Become what the controller decided. What is older than the known state is ignored."""
        if registration.partition_epoch < self.partition_epoch:
            return
        new_epoch = registration.leader_epoch > self.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leader_epoch = registration.leader_epoch
        self.leader = registration.leader
        self.replicas = registration.replicas
        self.is_alone = registration.leader == self.node_id and registration.replicas == (self.node_id,)
        if self.is_leader:
            self.isr = frozenset(registration.isr)
            if new_epoch:
                # Even if no record follows: a follower must find this epoch's start.
                self._begin_epoch()
                self.remote_log_ends.clear()
            self._advance_high_watermark()
        else:
            self.isr = frozenset()
            self.remote_log_ends.clear()
        self._touch(self.key)

    def resign(self) -> None:
        """Lead no longer: the replica is gone from this node."""
        self.leader = -1
        self.is_alone = False

    def _begin_epoch(self) -> None:
        try:
            self.log.leader_epochs.assign(self.leader_epoch, self.log.log_end_offset)
        except OSError as error:
            raise self.log.failed("write the leader epochs of", error) from error

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise `KafkaError` unless this node leads, in the epoch that the caller knows of."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the epoch is {self.leader_epoch} by now")
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch} is not known here yet"
                )
        if self.leader != self.node_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"node {self.node_id} does not lead {self.topic}-{self.index}",
            )

    # --- writing ---------------------------------------------------------------------------------

    def append(
        self, records: bytearray | memoryview, *, acks: int, now_ms: int, max_decompressed: int
    ) -> AppendInfo:
        """Append a producer's records as leader. Raises `KafkaError`."""
        self._check_writable(acks)
        info = self.log.append_as_leader(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, max_decompressed=max_decompressed
        )
        self._advance_high_watermark()
        self._touch(self.key)
        return info

    def append_validated(
        self,
        validated: ValidatedRecords,
        *,
        acks: int,
        now_ms: int,
        written: WriteAhead | None = None,
    ) -> AppendInfo:
        """Append records that the log's validator has read elsewhere. Raises `KafkaError`.

        What `written` has put into the file already is not written again.
        """
        self._check_writable(acks)
        info = self.log.append(validated, leader_epoch=self.leader_epoch, now_ms=now_ms, written=written)
        self._advance_high_watermark()
        self._touch(self.key)
        return info

    def write_ahead(self, validated: ValidatedRecords, *, acks: int, now_ms: int) -> WriteAhead | None:
        """Return what writes records before `append_validated`, in any thread; None if that cannot be.

        Set `writing` until then: nothing else may be appended meanwhile. Raises `KafkaError`.
        """
        self._check_writable(acks)
        return self.log.write_ahead(validated, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def _check_writable(self, acks: int) -> None:
        self.check_leader()
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} replicas are in sync, {self.min_isr} are needed",
            )

    def append_plain(self, records: memoryview, now_ms: int) -> int:
        """Append a producer's batch as the only replica; return its first offset.

        `NOT_PLAIN` says that it is for `append`, and nothing was done. Raises `KafkaError`.
        """
        log = self.log
        first_offset = append_plain(log, records, self.leader_epoch, now_ms)
        if first_offset != NOT_PLAIN:
            log.advance_high_watermark_to_end()
            self._touch(self.key)
        return first_offset

    @property
    def must_flush(self) -> bool:
        """Whether `flush.messages` wants what was appended on disk before it is answered."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    def replication_error(self, required_offset: int) -> ErrorCode | None:
        """Return how a write up to `required_offset` ended, None while followers still lack it."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(self.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _advance_high_watermark(self) -> None:
        end = self.log.log_end_offset
        if self.is_alone:
            self.log.advance_high_watermark(end)
            return
        if len(self.isr) < self.min_isr:
            return
        for node_id in self.isr:
            if node_id != self.node_id:
                end = min(end, self.remote_log_ends.get(node_id, 0))
        if end > self.log.high_watermark:
            self.log.advance_high_watermark(end)

    # --- reading ---------------------------------------------------------------------------------

    def limit(self, isolation: Isolation) -> int:
        """Return the offset that a reader with this isolation may not reach."""
        if isolation is Isolation.HIGH_WATERMARK:
            return self.log.high_watermark
        if isolation is Isolation.TXN_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def read(
        self, request: FetchPartition, *, isolation: Isolation, max_bytes: int, min_one: bool
    ) -> FetchedPartition:
        """Read what a fetch asks for, up to `max_bytes`. Raises `KafkaError`.

        With `min_one` the first batch comes whatever its size; else one that does not fit is left out, for
        a client could not make progress with a part of it.
        """
        self.check_leader(request.current_leader_epoch)
        row = FetchedPartition(request)
        log = self.log
        if request.last_fetched_epoch != NO_EPOCH:
            row.diverging = self._diverging_epoch(request)
        if row.diverging is None:
            read = log.read(request.fetch_offset, max_bytes, isolation=isolation, min_one=min_one)
            records = read.file_slice
            if records is not None and records.size >= read.first_batch_size:
                row.records = records
                row.size = records.size
            row.aborted = read.aborted
        row.high_watermark = log.high_watermark
        row.last_stable_offset = log.last_stable_offset
        row.log_start_offset = log.log_start_offset
        return row

    def readable(self, offset: int, max_bytes: int, isolation: Isolation) -> tuple[int, bool]:
        """Return how many bytes a read would bring, and whether waiting could bring more to it.

        More comes only to the active segment. Raises `KafkaError`.
        """
        records = self.log.read(offset, max_bytes, isolation=isolation, min_one=False).file_slice
        in_active_segment = offset >= self.log.segments.active.base_offset
        return (0 if records is None else records.size), in_active_segment

    def _diverging_epoch(self, request: FetchPartition) -> tuple[int, int] | None:
        """Return (epoch, end offset) if the fetcher's log parted from this one before its position."""
        epoch, end_offset = self.log.end_offset_for_epoch(request.last_fetched_epoch)
        if epoch == NO_EPOCH or end_offset == -1 or request.fetch_offset < self.log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {request.fetch_offset} cannot be compared"
            )
        if epoch < request.last_fetched_epoch or end_offset < request.fetch_offset:
            return epoch, end_offset
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch not above the one given, (-1, -1) if unknown."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, offset: int) -> int:
        """Move the log start up to `offset`, -1 for the high watermark; return it. Raises `KafkaError`."""
        if not self.log.config.is_deleted:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{self.topic} is compacted: its records go by key")
        start = self.log.delete_records_before(self.log.high_watermark if offset == -1 else offset)
        self._touch(self.key)
        return start

    def follower_fetched(self, node_id: int, offset: int) -> None:
        """Note that a follower has everything below `offset`."""
        self.remote_log_ends[node_id] = offset
        before = self.log.high_watermark
        self._advance_high_watermark()
        if self.log.high_watermark != before:
            self._touch(self.key)
