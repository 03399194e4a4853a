"""Partition: one node's replica of a partition, as leader or follower (class `Partition`).

The controller's decisions come as a `PartitionRegistration`, the requests of clients and followers as appends
and fetches. Everything is synchronous: nothing else runs between the check of leadership and the append.

* Only the leader appends and keeps the ISR. It fences a request with an older leader epoch (74) and answers
  UNKNOWN_LEADER_EPOCH (75) to a newer one.
* The leader's high watermark is the lowest log end of all replicas in sync or about to join. It stands still
  while the ISR is smaller than `min.insync.replicas`, capped by the number of replicas (KIP-966).
* Consumers read below the high watermark or the last stable offset. A read between that and the log end
  returns nothing and is no error.

The leader asks the controller for each change of the ISR (`maybeExpandIsr`, `maybeShrinkIsr`,
`handleAlterPartitionUpdate`):

| the controller's answer | what the leader does |
|---|---|
| yes | takes over the ISR of the answer, unless newer metadata has arrived |
| INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED | goes back to the committed ISR |
| FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, NEW_LEADER_ELECTED, … | waits for the metadata |
| any other error, or no answer | asks again |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.in_sync_replicas import NO_NODES, InSyncReplicas
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_appender import NOT_PLAIN
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from kcli.broker.metadata.metadata_image import PartitionRegistration
    from kcli.broker.replication.fetch_data import FetchPartition
    from kcli.broker.replication.in_sync_replicas import RemoteReplica, ReplicaContext
    from kcli.protocol.messages.alter_partition import AlteredPartition
    from kcli.protocol.records.control_records import TransactionMarker
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.log_appender import LogAppendInfo
    from kcli.storage.log.log_validator import ValidatedRecords
    from kcli.storage.log.unified_log import UnifiedLog
    from kcli.storage.producers.producer_guards import ProducerGuard

NO_EPOCH = -1
_log = logging.getLogger(__name__)


class IsrChange:
    """One change of the ISR: the members with their broker epochs, and the epochs of the partition."""

    __slots__ = ("isr", "leader_epoch", "members", "partition", "partition_epoch")

    def __init__(self, partition: Partition, members: dict[int, int]) -> None:
        self.partition = partition
        self.members = members
        self.isr = frozenset(members)
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch

    @property
    def is_pending(self) -> bool:
        """Whether the partition still waits for this change."""
        in_sync = self.partition.in_sync
        return (
            in_sync is not None
            and in_sync.pending == self.isr
            and self.partition.leader_epoch == self.leader_epoch
            and self.partition.partition_epoch == self.partition_epoch
        )

    def accept(self, answer: AlteredPartition) -> None:
        partition = self.partition
        if self.is_pending and answer.leader_epoch == partition.leader_epoch:
            assert partition.in_sync is not None
            partition.partition_epoch = answer.partition_epoch
            partition.in_sync.commit(partition.replicas, frozenset(answer.isr))
            partition.isr_moved()
            partition.maybe_expand_isr()

    def refuse(self) -> None:
        """Go back to the committed in-sync replicas; the follower may try again."""
        if self.is_pending:
            assert self.partition.in_sync is not None
            self.partition.in_sync.settle()
            self.partition.isr_moved()


ACKS_ALL = -1


class Partition:
    """A replica on node `node_id`. Operations wait in the purgatory under `key`."""

    __slots__ = (
        "_context",
        "_submit",
        "_touch",
        "in_sync",
        "index",
        "is_alone",
        "key",
        "leader",
        "leader_epoch",
        "log",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
        "writing",
    )

    def __init__(
        self,
        key: TopicPartition,
        topic_id: bytes,
        *,
        log: UnifiedLog,
        context: ReplicaContext,
        submit: Callable[[IsrChange], None],
    ) -> None:
        self.key = key
        self.topic, self.index = key
        self.topic_id = topic_id
        self.node_id = context.node_id
        self.log = log
        self._context = context
        self._touch = context.touch
        self._submit = submit
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.in_sync: InSyncReplicas | None = None
        """The followers, while this node leads and there are any."""
        self.is_alone = False
        """Whether this node leads and has the only replica, so an append is committed at once."""
        self.writing: trio.Event | None = None
        """Set while a thread writes to the log; other appends wait for it."""

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def isr(self) -> frozenset[int]:
        """The committed ISR; empty if this node does not lead."""
        if self.in_sync is not None:
            return self.in_sync.committed
        return frozenset((self.node_id,)) if self.is_alone else NO_NODES

    @property
    def min_isr(self) -> int:
        """The number of replicas that must be in sync for an acks=all write."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def apply(self, registration: PartitionRegistration) -> bool:
        """Take over a decision unless it is older than this state; return whether its leader epoch is new."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        was_leader = self.is_leader
        new_epoch = registration.leader_epoch > self.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leader_epoch = registration.leader_epoch
        self.leader = registration.leader
        self.replicas = registration.replicas
        self.is_alone = registration.leader == self.node_id and registration.replicas == (self.node_id,)
        if new_epoch and self.in_sync is not None:
            self.in_sync.release()
        if self.is_leader:
            self._lead(registration, new_epoch=new_epoch, is_new_leader=not was_leader)
        else:
            self.in_sync = None
            self.log.guards.clear()
        self._touch(self.key)
        return new_epoch

    def _lead(self, registration: PartitionRegistration, *, new_epoch: bool, is_new_leader: bool) -> None:
        in_sync = None
        if not self.is_alone:
            in_sync = self.in_sync or InSyncReplicas(self._context)
            in_sync.commit(registration.replicas, frozenset(registration.isr))
        self.in_sync = in_sync
        if new_epoch:
            # Even if no record follows: followers must find the start of this epoch.
            self.log.assign_epoch_at_end(self.leader_epoch)
            if in_sync is not None:
                end, now_ms = self.log.log_end_offset, self._context.clock_ms()
                in_sync.begin_epoch(end, is_new_leader=is_new_leader, now_ms=now_ms)
        self._advance_high_watermark()
        if in_sync is not None and not new_epoch:
            self.maybe_expand_isr()

    def resign(self) -> None:
        """Stop leading: the replica is gone from this node."""
        if self.in_sync is not None:
            self.in_sync.release()
        self.leader = -1
        self.is_alone = False
        self.in_sync = None
        self.log.guards.clear()

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise `KafkaError` unless this node leads, in the caller's epoch."""
        self.check_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"node {self.node_id} does not lead {self.topic}-{self.index}",
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise `KafkaError` if the caller knows another epoch."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the epoch is {self.leader_epoch} by now")
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch} is not known here yet"
                )

    def append(
        self,
        records: bytearray | memoryview,
        *,
        acks: int,
        now_ms: int,
        max_decompressed: int,
        try_plain: bool = True,
    ) -> LogAppendInfo:
        """Append records as leader, after `append_plain` with `try_plain=False`. Raises `KafkaError`."""
        self._check_writable(acks)
        info = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            max_decompressed=max_decompressed,
            try_plain=try_plain,
        )
        self._appended(info)
        return info

    def append_validated(
        self,
        validated: ValidatedRecords,
        *,
        acks: int,
        now_ms: int,
        written: WriteAhead | None = None,
        guard: ProducerGuard | None = None,
    ) -> LogAppendInfo:
        """Append validated records; `written` is already in the file. Raises `KafkaError`.

        A transactional batch needs the `guard` of `begin_guard` unless its transaction is open.
        """
        self._check_writable(acks)
        info = self.log.append(
            validated, leader_epoch=self.leader_epoch, now_ms=now_ms, written=written, guard=guard
        )
        self._appended(info)
        return info

    def begin_guard(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_tv2: bool, now_ms: int
    ) -> ProducerGuard | None:
        """Return the guard of a transactional batch until its coordinator has verified the transaction.

        None if the transaction is open here: then nothing needs to be verified. Raises `KafkaError`.
        """
        self.check_leader()
        return self.log.producer_state.begin_guard(
            producer_id, producer_epoch, base_sequence, is_tv2=is_tv2, now_ms=now_ms
        )

    def append_marker(self, marker: TransactionMarker, *, now_ms: int) -> LogAppendInfo:
        """Append the end of a transaction, an acks=all write; not while `writing`. Raises `KafkaError`."""
        self._check_writable(ACKS_ALL)
        info = self.log.append_marker(marker, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._appended(info)
        return info

    def write_ahead(self, validated: ValidatedRecords, *, acks: int, now_ms: int) -> WriteAhead | None:
        """Return a writer for any thread, to run before `append_validated`; None if that is impossible.

        Set `writing` until then, so that nothing else is appended. Raises `KafkaError`.
        """
        self._check_writable(acks)
        return self.log.write_ahead(validated, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def _check_writable(self, acks: int) -> None:
        self.check_leader()
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"replicas in sync: {len(self.isr)}, needed: {self.min_isr}",
            )

    def _appended(self, info: LogAppendInfo) -> None:
        in_sync = self.in_sync
        if in_sync is None:
            self.log.advance_high_watermark_to_end()
        else:
            in_sync.leader_appended(info.first_offset)
            self._advance_high_watermark()
        self._touch(self.key)

    def append_plain(self, records: memoryview, now_ms: int) -> int:
        """Append a producer's batch as the only replica; return its first offset.

        Returns `NOT_PLAIN`, with nothing done, for a batch that `append` must take. Raises `KafkaError`.
        """
        log = self.log
        first_offset = log.append_plain(records, self.leader_epoch, now_ms)
        if first_offset != NOT_PLAIN:
            log.advance_high_watermark_to_end()
            self._touch(self.key)
        return first_offset

    @property
    def knows_committed_end(self) -> bool:
        """False for a new leader whose high watermark is below the start of its epoch (KIP-207)."""
        return self.in_sync is None or self.log.high_watermark >= self.in_sync.epoch_start_offset

    def replication_error(self, required_offset: int) -> ErrorCode | None:
        """Return the result of a write up to `required_offset`, None while followers lack it."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if self.in_sync is not None and len(self.in_sync.maximal) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _advance_high_watermark(self) -> None:
        """Raise the high watermark to the lowest log end of all replicas that may be in sync."""
        in_sync, end = self.in_sync, self.log.log_end_offset
        if in_sync is not None:
            if len(in_sync.committed) < self.min_isr:
                return
            end = in_sync.replicated_up_to(end)
        if self.log.advance_high_watermark(end):
            self.tell_offsets()

    def isr_moved(self) -> None:
        """Act on another ISR: the high watermark may move, writes may be refused."""
        self._advance_high_watermark()
        self._touch(self.key)

    def maybe_expand_isr(self, fetching: RemoteReplica | None = None) -> None:
        """Ask the controller to add caught-up followers: `fetching`, or those that wait for more."""
        in_sync = self.in_sync
        if in_sync is None or in_sync.pending is not None:
            return
        high_watermark = self.log.high_watermark
        joining = [
            node_id
            for node_id, remote in in_sync.remotes.items()
            if (remote is fetching or remote.ready is not None)
            and in_sync.may_join(remote, high_watermark)
            and in_sync.is_eligible(remote)
        ]
        if joining:
            self._ask_for(in_sync, in_sync.committed.union(joining))

    def maybe_shrink_isr(self) -> None:
        """Ask the controller to remove the members that have been behind for too long."""
        in_sync, context = self.in_sync, self._context
        if in_sync is None or in_sync.pending is not None:
            return
        lagging = in_sync.lagging(self.log.log_end_offset, context.clock_ms(), context.max_lag_ms())
        if lagging:
            _log.info("%s-%d: replicas lag behind: %s", *self.key, sorted(lagging))
            self._ask_for(in_sync, in_sync.committed - lagging)

    def _ask_for(self, in_sync: InSyncReplicas, isr: frozenset[int]) -> None:
        members = {}
        for node_id in self.replicas:
            if node_id in isr:
                remote = in_sync.remotes.get(node_id)
                members[node_id] = -1 if remote is None else remote.broker_epoch
        in_sync.ask(isr)
        self._submit(IsrChange(self, members))

    def check_follower(self, node_id: int, broker_epoch: int, current_leader_epoch: int) -> None:
        """Raise `KafkaError` unless a node may fetch as a follower."""
        if node_id not in self.replicas:
            # The follower asks again: one of the two nodes does not know the assignment yet.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if current_leader_epoch >= 0:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"node {node_id} has no replica of {self.topic}-{self.index}")
        if self.in_sync is not None and 0 <= broker_epoch < self.in_sync.remotes[node_id].broker_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {node_id} has been restarted since")

    def follower_fetched(
        self, node_id: int, offset: int, *, log_start_offset: int = -1, broker_epoch: int = -1
    ) -> None:
        """Note that a follower has everything below `offset`."""
        in_sync = self.in_sync
        if in_sync is None:
            return
        remote = in_sync.remotes[node_id]
        before, high_watermark = remote.log_end_offset, self.log.high_watermark
        log_start_moved = log_start_offset != remote.log_start_offset
        remote.fetched(
            offset,
            leader_end=self.log.log_end_offset,
            now_ms=self._context.clock_ms(),
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
        )
        if node_id not in in_sync.maximal:
            self.maybe_expand_isr(remote)
        if offset != before:
            self._advance_high_watermark()
        if log_start_moved or self.log.high_watermark != high_watermark:
            self._touch(self.key)

    def tell_offsets(self, *, at_once: bool = False) -> None:
        """Tell the followers about the high watermark and the log start, soon or `at_once`."""
        if self.in_sync is not None:
            self.in_sync.tell_offsets(at_once=at_once)

    def limit(self, isolation: Isolation) -> int:
        """Return the first offset that a reader with this isolation may not read."""
        if isolation is Isolation.HIGH_WATERMARK:
            return self.log.high_watermark
        if isolation is Isolation.TXN_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def read(
        self, request: FetchPartition, *, isolation: Isolation, max_bytes: int, min_one: bool
    ) -> FetchedPartition:
        """Read what a fetch asks for, up to `max_bytes`. Raises `KafkaError`.

        The caller checks whether this replica may be read. With `min_one` the first batch comes whatever its
        size; otherwise a batch that does not fit is left out, because clients cannot use a part of it.
        """
        row = FetchedPartition(request)
        log = self.log
        if request.last_fetched_epoch != NO_EPOCH:
            row.diverging = self.diverging_epoch(request)
        if row.diverging is None:
            found = log.read(request.fetch_offset, max_bytes, isolation=isolation, min_one=min_one)
            records = found.file_slice
            if records is not None and records.size >= found.first_batch_size:
                row.records = records
                row.size = records.size
            row.aborted = found.aborted
        row.high_watermark = log.high_watermark
        row.last_stable_offset = log.last_stable_offset
        row.log_start_offset = log.log_start_offset
        return row

    def readable(self, offset: int, max_bytes: int, isolation: Isolation) -> tuple[int, bool]:
        """Return how many bytes a read returns, and whether a later read could return more.

        Only the active segment grows. Raises `KafkaError`.
        """
        log = self.log
        records = log.read(offset, max_bytes, isolation=isolation, min_one=False).file_slice
        in_active_segment = offset >= log.segments.active.base_offset
        return (0 if records is None else records.size), in_active_segment

    def diverging_epoch(self, request: FetchPartition) -> tuple[int, int] | None:
        """Return (epoch, end offset) if the fetcher's log diverges from this one (KIP-595), else None.

        Raises `KafkaError` if the fetcher's position cannot be compared.
        """
        wanted = request.last_fetched_epoch
        if wanted == NO_EPOCH:
            return None
        log = self.log
        epoch, end_offset = log.end_offset_for_epoch(wanted)
        if epoch == NO_EPOCH or end_offset == -1 or request.fetch_offset < log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {request.fetch_offset} cannot be compared"
            )
        if epoch < wanted or end_offset < request.fetch_offset:
            return epoch, end_offset
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch not above the one given, (-1, -1) if unknown."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, offset: int) -> int:
        """Move the log start up to `offset`, -1 for the high watermark; return it. Raises `KafkaError`."""
        if self.log.config.is_compacted and not self.log.config.is_deleted:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic} is compacted: its records cannot be deleted by offset",
            )
        start = self.log.delete_records_before(self.log.high_watermark if offset == -1 else offset)
        self.tell_offsets(at_once=True)
        self._touch(self.key)
        return start

    @property
    def low_watermark(self) -> int:
        """The lowest log start of all replicas on active nodes, -1 while one is unknown."""
        start = self.log.log_start_offset
        if self.in_sync is not None:
            for node_id, remote in self.in_sync.remotes.items():
                if remote.log_start_offset < start and self._context.broker_epoch_of(node_id) is not None:
                    start = remote.log_start_offset
        return start
