"""A member of the consumer protocol: the positions it commits."""

from __future__ import annotations

import pytest
import trio

from kcli.client.admin.group_offsets import CommitFailed
from kcli.client.admin.types import CommittedOffset
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.client.groups.consumer_member import CONFIG, Heartbeat, committed, grouped
from tests.client.groups.fake_group import commit_answer
from tests.client.groups.grouped_consumer import ORDERS, Diary, read


async def test_a_stale_epoch_is_committed_again_in_the_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        # Another member joins: the coordinator moves to epochs that this one does not know yet.
        brokers.script(OffsetCommitRequest, *[lambda _, request, __: commit_answer(request, 113)] * 3)
        await consumer.commit({ORDERS[0]: CommittedOffset(3)})
        assert committed(group) == {0: 3}
        assert len(brokers.received(OffsetCommitRequest)) == 4


@pytest.mark.parametrize(
    ("code", "error"),
    [(25, CommitFailed), (110, CommitFailed), (12, KafkaError), (28, KafkaError), (30, KafkaError)],
)
async def test_errors_of_a_commit_that_are_raised(
    code: int, error: type[KafkaError], autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        diary = Diary()
        consumer.subscribe(["orders"], diary)
        await read(consumer, 1)
        brokers.script(OffsetCommitRequest, lambda _, request, __: commit_answer(request, code))
        with pytest.raises(error) as caught:
            await consumer.commit()
        assert caught.value.code == code
        await read(consumer, 1)
        again = ["!0,1,2,3", "+0,1,2,3"] if error is CommitFailed else []
        assert diary.events == ["+0,1,2,3", *again]


@pytest.mark.parametrize("code", [113, 25, 14])
async def test_a_look_up_of_offsets_in_an_old_epoch_passes(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    refused = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[], error_code=code)])
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(OffsetFetchRequest, refused, refused)
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 2)) == 40
        brokers.script(OffsetFetchRequest, refused)
        assert await consumer.committed(ORDERS[:1]) == {ORDERS[0]: None}


async def test_positions_are_committed_in_their_interval(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 4.5)
        assert group.offsets() == {}
        await read(consumer, 1)
        assert committed(group) == dict.fromkeys(range(4), 10)
        await read(consumer, 20)
        assert len(brokers.received(OffsetCommitRequest)) == 1


async def test_assigned_partitions_commit_as_nobody(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1) as (brokers, client, group):
        group.commit({("orders", 0): 6})
        async with Consumer(client, CONFIG) as consumer:
            consumer.assign(ORDERS[:1])
            assert [offset for _, offset in await read(consumer, 1)] == [6, 7, 8, 9]
        (request,) = brokers.received(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        assert committed(group) == {0: 10}
        assert brokers.received(Heartbeat) == []
