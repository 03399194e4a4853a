"""Reading the records of groups, and the times of records, from a running broker."""

from __future__ import annotations

import time

import pytest
import trio

from kcli.client import admin
from kcli.client.admin import CommittedOffset, TopicPartition
from kcli.client.client import connect
from kcli.client.config import ClientConfig
from kcli.commands.groups import records
from kcli.commands.groups.history import CommitEvent
from kcli.commands.groups.records import Patience, first_timestamps, read_histories
from kcli.errors import KcliError
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, delete_topic, produce
from tests.support.records import TestRecord

TOPIC = "group-records"


async def test_commits_and_deletions_are_read_back(broker: KcliBroker) -> None:
    create_topic(broker.bootstrap, TOPIC, 2)
    first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    async with connect(broker.bootstrap, ClientConfig()) as client:
        for offset in (3, 5):
            offsets = {first: CommittedOffset(offset, None, "note"), second: CommittedOffset(offset)}
            assert set((await admin.alter_group_offsets(client, "records", offsets)).values()) == {None}
        await admin.delete_group_offsets(client, "records", [second])
        await admin.alter_group_offsets(client, "other", {first: CommittedOffset(9)})
        histories, failures = await read_histories(client, ["records", "nobody"], with_commits=True)
        assert failures == []
        commits = [event for event in histories["records"].events if isinstance(event, CommitEvent)]
        assert [(event.partition, event.offset) for event in commits] == [
            (0, 3),
            (1, 3),
            (0, 5),
            (1, 5),
            (1, None),
        ]
        assert histories["records"].offsets.keys() == {(TOPIC, 0)}
        assert histories["records"].offsets[TOPIC, 0].metadata == "note"
        assert not histories["nobody"].exists
        quiet, _ = await read_histories(client, ["records"], with_commits=False)
        assert (quiet["records"].events, quiet["records"].offsets.keys()) == ([], {(TOPIC, 0)})
    delete_topic(broker.bootstrap, TOPIC)


async def test_the_time_of_the_first_record_from_an_offset_on(broker: KcliBroker) -> None:
    create_topic(broker.bootstrap, TOPIC, 3)
    now = int(time.time() * 1000)
    produce(
        broker.bootstrap, TOPIC, [TestRecord(n % 2, 0, now - 1000 + n, None, b"value", ()) for n in range(20)]
    )
    async with connect(broker.bootstrap, ClientConfig()) as client:
        ends = {(TOPIC, 0): 10, (TOPIC, 1): 10, (TOPIC, 2): 0}
        positions = {(TOPIC, 0): 0, (TOPIC, 1): 7, (TOPIC, 2): 0}
        found = await first_timestamps(client, positions, ends)
        assert found == {(TOPIC, 0): now - 1000, (TOPIC, 1): now - 1000 + 15, (TOPIC, 2): None}
        assert await first_timestamps(client, {}, {}) == {}
    delete_topic(broker.bootstrap, TOPIC)


class Stalled:
    """A consumer with a given position."""

    def __init__(self) -> None:
        self.assignment = [TopicPartition("t", 0)]
        self.at = 0

    def position_nowait(self, partition: TopicPartition) -> int:
        return self.at


async def test_a_broker_that_sends_nothing_is_given_up_on(autojump_clock: trio.testing.MockClock) -> None:
    consumer = Stalled()
    patience = Patience(consumer)  # type: ignore[arg-type]
    for position in (0, 1, 1):
        consumer.at = position
        patience.check()
        await trio.sleep(records.PATIENCE_S - 1)
    await trio.sleep(records.PATIENCE_S)
    with pytest.raises(KcliError, match="no records of"):
        patience.check()
