"""Fetch sessions name only what changed, and the end of fetched data is found from its sizes."""

from __future__ import annotations

import trio

from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.completed_fetch import end_of
from kcli.client.fetch.fetcher import FetchSession, FetchTarget
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import fake_cluster
from tests.client.fetch.fetched_batches import EARLIEST, ORDERS_0, batch, fetched, read_until


def target(offset: int, topic_id: bytes = b"\x01" * 16) -> FetchTarget:
    return FetchTarget(topic_id, offset, 1000, 0)


def test_a_session_names_only_what_changed() -> None:
    session = FetchSession()
    a, b, c = (TopicPartition("t", index) for index in range(3))
    topics, forgotten = session.build({a: target(0), b: target(0)})
    assert (session.session_id, session.epoch) == (0, 0)
    assert [row.partition for row in topics[0].partitions] == [0, 1]
    assert forgotten == []
    session.answered(77)
    topics, forgotten = session.build({a: target(5), b: target(0), c: target(0)})
    assert (session.session_id, session.epoch) == (77, 1)
    assert [row.partition for row in topics[0].partitions] == [0, 2]
    session.answered(77)
    topics, forgotten = session.build({b: target(0), c: target(0)})
    assert topics == []
    assert [(row.topic, row.partitions) for row in forgotten] == [("t", [0])]


def test_a_topic_made_anew_is_forgotten_and_named_again() -> None:
    session = FetchSession()
    a = TopicPartition("t", 0)
    session.build({a: target(0)})
    session.answered(77)
    topics, forgotten = session.build({a: target(0, b"\x02" * 16)})
    assert [row.topic_id for row in topics] == [b"\x02" * 16]
    assert [row.topic_id for row in forgotten] == [b"\x01" * 16]


def test_session_epochs_wrap_to_1_and_a_reset_starts_over() -> None:
    session = FetchSession()
    session.answered(77)
    session.epoch = 2**31 - 1
    session.answered(77)
    assert session.epoch == 1
    session.answered(0)
    assert (session.session_id, session.epoch) == (0, 0)


async def test_incremental_fetches_go_on_in_their_session(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        answers = [fetched(batch(number, [b"x"]), session_id=7) for number in range(3)]
        brokers.script(FetchRequest, *answers)
        consumer.assign([ORDERS_0])
        await read_until(consumer, ORDERS_0, 3)
        requests = brokers.received(FetchRequest)
        assert [(request.session_id, request.session_epoch) for request in requests[:3]] == [
            (0, 0),
            (7, 1),
            (7, 2),
        ]


def test_the_end_of_fetched_data_is_found_from_its_sizes() -> None:
    data = batch(5, [b"a", b"b"]) + bytes(RecordBatchBuilder(base_offset=7).build(last_offset=11))
    assert end_of(data, 5) == 12
    assert end_of(data + data[:30], 5) == 12
    assert end_of(data[:30], 5) == 5
    assert end_of(b"", 5) == 5
