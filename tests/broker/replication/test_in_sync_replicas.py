"""Who is in sync: what fetches tell of a follower, who joins and leaves, and what an answer does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from kcli.broker.metadata.metadata_image import PartitionRegistration
from kcli.broker.replication.alter_partition_manager import AlterPartitionManager
from kcli.broker.replication.in_sync_replicas import RemoteReplica, ReplicaContext
from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.broker.replication.partition import IsrChange, Partition
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from kcli.protocol.topics import TopicPartition
from tests.broker.replication.clusters import append
from tests.broker.replication.test_follower_log import make_log

LAG_MS = 1000
TOPIC_ID = bytes(range(16))


@dataclass
class Host:
    """A node whose clock stands still until it is set."""

    now_ms: int = 0
    epochs: dict[int, int] = field(default_factory=lambda: {2: 20, 3: 30})
    asked: list[IsrChange] = field(default_factory=list)

    def touch(self, key: tuple[str, int]) -> None:
        """Nobody waits."""

    def clock_ms(self) -> int:
        return self.now_ms

    def broker_epoch_of(self, node_id: int) -> int | None:
        return self.epochs.get(node_id)

    @property
    def context(self) -> ReplicaContext:
        return ReplicaContext(1, lambda: LAG_MS, self.clock_ms, self.broker_epoch_of, self.touch)

    def submit(self, change: IsrChange) -> None:
        self.asked.append(change)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def partition(tmp_path: Path, host: Host) -> Partition:
    """Led by node 1, all of 1, 2 and 3 in sync."""
    log = make_log(tmp_path, 0)
    made = Partition(TopicPartition("t", 0), TOPIC_ID, log=log, context=host.context, submit=host.submit)
    made.apply(registration())
    return made


def registration(isr: tuple[int, ...] = (1, 2, 3), epoch: int = 1, leader_epoch: int = 0):
    return PartitionRegistration(
        replicas=(1, 2, 3), isr=isr, leader=1, leader_epoch=leader_epoch, partition_epoch=epoch
    )


# --- what fetches tell ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetches", "expected"),
    [
        ([(100, 10, 10)], 100),  # At the end.
        ([(100, 5, 10)], None),  # Never was.
        ([(100, 5, 10), (200, 10, 12)], 100),  # At the end that the fetch before saw.
        ([(100, 5, 10), (200, 9, 12)], None),
        ([(100, 10, 10), (200, 9, 12)], 100),  # It never goes back.
        ([(100, 5, 10), (200, 10, 12), (300, 12, 14), (400, 14, 16)], 300),  # Always a step behind.
    ],
)
def test_a_follower_was_caught_up_when_it_reached_an_end(
    fetches: list[tuple[int, int, int]], expected: int | None
) -> None:
    remote = RemoteReplica(2)
    for now_ms, offset, leader_end in fetches:
        remote.fetched(offset, leader_end=leader_end, now_ms=now_ms, log_start_offset=0, broker_epoch=-1)
    caught_up = remote.caught_up_ms if remote.caught_up_ms >= 0 else None
    assert caught_up == expected


def test_who_has_everything_is_never_behind() -> None:
    remote = RemoteReplica(2)
    remote.fetched(10, leader_end=10, now_ms=0, log_start_offset=0, broker_epoch=-1)
    assert remote.is_caught_up(10, 10**9, LAG_MS)
    assert not remote.is_caught_up(11, LAG_MS + 1, LAG_MS)
    assert remote.is_caught_up(11, LAG_MS, LAG_MS)


# --- joining and leaving -------------------------------------------------------------------------


def test_members_that_are_behind_for_too_long_leave_together(partition: Partition, host: Host) -> None:
    end = append(partition, b"v", acks=1)
    host.now_ms = LAG_MS
    partition.maybe_shrink_isr()
    assert host.asked == []
    host.now_ms = LAG_MS + 1
    partition.maybe_shrink_isr()
    (change,) = host.asked
    assert change.members == {1: -1}
    # Until the controller agrees they count.
    assert (partition.isr, partition.log.high_watermark) == ({1, 2, 3}, 0)
    partition.apply(registration((1,), epoch=2))
    assert (partition.isr, partition.log.high_watermark) == ({1}, end)


def test_one_wish_at_a_time(partition: Partition, host: Host) -> None:
    append(partition, b"v", acks=1)
    host.now_ms = LAG_MS + 1
    partition.maybe_shrink_isr()
    partition.maybe_shrink_isr()
    partition.follower_fetched(2, 1, broker_epoch=20)
    assert len(host.asked) == 1


def test_a_follower_joins_at_the_high_watermark_and_is_waited_for_at_once(
    partition: Partition, host: Host
) -> None:
    partition.apply(registration((1, 2), epoch=2))
    host.now_ms = 2 * LAG_MS
    append(partition, b"a", acks=1)
    partition.follower_fetched(2, 1, broker_epoch=20)
    partition.follower_fetched(3, 0, broker_epoch=30)
    assert (host.asked, partition.log.high_watermark) == ([], 1)
    partition.follower_fetched(3, 1, broker_epoch=30)
    (change,) = host.asked
    assert change.members == {1: -1, 2: 20, 3: 30}
    append(partition, b"b", acks=1)
    partition.follower_fetched(2, 2, broker_epoch=20)
    assert partition.log.high_watermark == 1
    partition.follower_fetched(3, 2, broker_epoch=30)
    assert partition.log.high_watermark == 2


def test_who_was_caught_up_a_moment_ago_is_waited_for_without_being_in_sync(
    partition: Partition, host: Host
) -> None:
    partition.apply(registration((1, 2), epoch=2))
    append(partition, b"a", acks=1)
    partition.follower_fetched(2, 1, broker_epoch=20)
    assert partition.log.high_watermark == 0
    # Else it could never come up to the high watermark of a partition that is written all the time.
    partition.follower_fetched(3, 0, broker_epoch=30)
    assert len(host.asked) == 1


@pytest.mark.parametrize(
    ("epochs", "fetched_with", "joins"),
    [
        ({2: 20, 3: 30}, 30, True),
        ({2: 20, 3: 30}, -1, True),
        ({2: 20, 3: 31}, 30, False),  # It has been restarted since.
        ({2: 20}, 30, False),  # It is fenced, or stops.
    ],
)
def test_only_who_is_alive_and_the_same_joins(
    partition: Partition, host: Host, epochs: dict[int, int], fetched_with: int, joins: bool
) -> None:
    partition.apply(registration((1, 2), epoch=2))
    host.epochs = epochs
    partition.follower_fetched(3, 0, broker_epoch=fetched_with)
    assert bool(host.asked) == joins


def test_nobody_joins_before_the_epoch_began(partition: Partition, host: Host) -> None:
    append(partition, b"a", b"b", acks=1)
    partition.apply(registration((1, 2), epoch=2, leader_epoch=1))
    # The high watermark is below, for nobody has fetched in this epoch.
    partition.follower_fetched(3, 1, broker_epoch=30)
    assert (partition.log.high_watermark, host.asked) == (0, [])
    partition.follower_fetched(3, 2, broker_epoch=30)
    assert len(host.asked) == 1


# --- answers -------------------------------------------------------------------------------------


def answer(code: ErrorCode = ErrorCode.NONE, isr: tuple[int, ...] = (1,)) -> AlterPartitionResponse:
    row = AlteredPartition(
        partition_index=0, error_code=code, leader_id=1, leader_epoch=0, isr=list(isr), partition_epoch=2
    )
    return AlterPartitionResponse(topics=[AlteredTopic(topic_id=TOPIC_ID, partitions=[row])])


@pytest.mark.parametrize(
    ("code", "isr", "pending", "asks_again"),
    [
        (ErrorCode.NONE, {1}, None, False),
        (ErrorCode.INELIGIBLE_REPLICA, {1, 2, 3}, None, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, {1, 2, 3}, None, False),
        (ErrorCode.FENCED_LEADER_EPOCH, {1, 2, 3}, {1}, False),
        (ErrorCode.INVALID_UPDATE_VERSION, {1, 2, 3}, {1}, False),
        (ErrorCode.INVALID_REQUEST, {1, 2, 3}, {1}, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {1, 2, 3}, {1}, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, {1, 2, 3}, {1}, False),
        (ErrorCode.NEW_LEADER_ELECTED, {1, 2, 3}, {1}, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, {1, 2, 3}, {1}, True),
        (ErrorCode.NOT_CONTROLLER, {1, 2, 3}, {1}, True),
    ],
)
async def test_what_an_answer_does(
    partition: Partition,
    host: Host,
    code: ErrorCode,
    isr: set[int],
    pending: set[int] | None,
    asks_again: bool,
) -> None:
    append(partition, b"v", acks=1)
    host.now_ms = LAG_MS + 1
    partition.maybe_shrink_isr()
    changes = AlterPartitionManager(1, broker_epoch=lambda: 10, send=lambda _: _answered(answer(code)))
    await changes.settle({partition.key: host.asked[0]})
    assert partition.in_sync is not None
    assert (partition.isr, partition.in_sync.pending) == (isr, pending)
    assert changes.is_waiting == asks_again


async def _answered(response: AlterPartitionResponse) -> AlterPartitionResponse:
    return response


async def test_a_wish_that_metadata_was_faster_than_changes_nothing(partition: Partition, host: Host) -> None:
    append(partition, b"v", acks=1)
    host.now_ms = LAG_MS + 1
    partition.maybe_shrink_isr()
    partition.apply(registration((1, 2), epoch=5))
    changes = AlterPartitionManager(1, broker_epoch=lambda: 10, send=lambda _: _answered(answer()))
    await changes.settle({partition.key: host.asked[0]})
    assert (partition.isr, partition.partition_epoch) == ({1, 2}, 5)


@pytest.mark.parametrize("failure", [PeerUnreachable("no way"), ErrorCode.STALE_BROKER_EPOCH])
async def test_what_got_no_answer_is_asked_again_with_what_it_was(
    partition: Partition, host: Host, autojump_clock: object, failure: Exception | ErrorCode
) -> None:
    append(partition, b"v", acks=1)
    host.now_ms = LAG_MS + 1
    partition.maybe_shrink_isr()
    sent: list[AlterPartitionRequest] = []

    async def send(request: AlterPartitionRequest) -> AlterPartitionResponse:
        sent.append(request)
        if len(sent) < 3 and isinstance(failure, Exception):
            raise failure
        if len(sent) < 3:
            return AlterPartitionResponse(error_code=failure)  # type: ignore[arg-type]
        nursery.cancel_scope.cancel()
        return answer()

    changes = AlterPartitionManager(1, broker_epoch=lambda: 10, send=send)
    changes.submit(host.asked[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(changes.run)
    assert [request.topics[0].partitions[0].partition_epoch for request in sent] == [1, 1, 1]
    assert [each.broker_id for each in sent[2].topics[0].partitions[0].new_isr_with_epochs] == [1]
    assert partition.isr == {1}
