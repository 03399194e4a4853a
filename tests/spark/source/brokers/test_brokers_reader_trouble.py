"""Reading splits from brokers that misbehave and move, and send damage."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.source.brokers.brokers_reader import BrokersReader
from kcli.spark.source.brokers.cluster_access import ClusterAccess
from kcli.spark.split import ReadCounters, Split
from tests.spark.source.brokers.read_splits import (
    BATCHES,
    IMPATIENT,
    QUICK,
    READING,
    SKIPPING,
    honest,
    offsets,
)
from tests.spark.source.brokers.scripted_broker import TOPIC, Script, ScriptedBroker, nobody_listens, refusal

# --- trouble -----------------------------------------------------------------------------------------------


def hang_up(request: FetchRequest, truth: FetchResponse) -> None:
    return None


def frame(data: bytes) -> Script:
    return lambda request, truth: data


def nothing(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
    truth.responses[0].partitions[0].records = b""
    return truth


def no_topic(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
    return FetchResponse(responses=[])


def another_partition(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
    truth.responses[0].partitions[0].partition_index = 7
    return truth


TROUBLES: dict[str, Script] = {
    "the connection is lost": hang_up,
    "the answer is for somebody else": frame(b"\0\0\0\x0c" + b"\0\0\0\x63" + b"\0" * 8),
    "a frame of a negative size": frame(b"\xff\xff\xff\xff"),
    "a frame of two gigabytes": frame(b"\x7f\xff\xff\xff"),
    "a frame of nothing": frame(b"\0\0\0\0"),
    "a frame that is no response": frame(b"\0\0\0\x40" + b"\xff" * 64),
    "half a frame": frame(b"\0\0\1\0" + b"\0" * 10),
    "nothing yet": nothing,
    "no answer about the topic": no_topic,
    "an answer about another partition": another_partition,
    **{
        error.name: refusal(error)
        for error in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.OFFSET_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )
    },
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("when", [0, 2])
def test_what_passes_is_waited_for(trouble: str, when: int) -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.script.extend([honest] * when + [TROUBLES[trouble]])
        properties = {**QUICK, "fetch.max.bytes": "300", "request.timeout.ms": "200"}
        assert offsets(broker, properties=properties) == list(range(100))
        assert not broker.script


def test_what_does_not_pass_in_time_is_raised() -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.script.extend([hang_up] * 100_000)
        with pytest.raises(KcliError, match="was lost"):
            offsets(broker, properties=IMPATIENT)


def test_a_partition_that_gives_nothing_is_an_error_in_the_end() -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.script.extend([nothing] * 100_000)
        with pytest.raises(KcliError, match="t-0 gives nothing at offset 0, before the end 100"):
            offsets(broker, properties=IMPATIENT)


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION])
def test_what_will_not_pass_is_raised_at_once(error: ErrorCode) -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.script.append(refusal(error))
        with pytest.raises(KafkaError, match="cannot read t-0") as raised:
            offsets(broker)
        assert raised.value.code is error
        assert len(broker.fetches) == 1


def test_a_topic_that_is_gone_is_an_error() -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.knows_topic = False
        with pytest.raises(KafkaError, match="t"):
            offsets(broker, properties=IMPATIENT)


def test_nobody_listening_is_an_error() -> None:
    with nobody_listens() as bootstrap:
        reader = BrokersReader(ClusterAccess(bootstrap, IMPATIENT))
        with pytest.raises(KcliError, match="cannot connect to 127"):
            list(reader.read(Split(TOPIC, 0, 0, 100), READING, ReadCounters()))


def test_the_leader_is_followed_when_it_moves() -> None:
    peers: list[ScriptedBroker] = []
    leader = [1]
    with (
        ScriptedBroker(BATCHES, node_id=1, peers=peers, leader=leader) as first,
        ScriptedBroker(BATCHES, node_id=2, peers=peers, leader=leader) as second,
    ):
        peers += [first, second]

        def move(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
            leader[:] = [2, 1]
            return refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)(request, truth)  # type: ignore[return-value]

        first.script.extend([honest, move])
        assert offsets(first, properties={**QUICK, "fetch.max.bytes": "300"}) == list(range(100))
        assert len(second.fetches) > 5


def test_the_replica_that_the_leader_prefers_is_read_from() -> None:
    peers: list[ScriptedBroker] = []
    leader = [1]
    with (
        ScriptedBroker(BATCHES, node_id=1, peers=peers, leader=leader) as first,
        ScriptedBroker(BATCHES[:5], node_id=2, peers=peers, leader=leader) as second,
    ):
        peers += [first, second]

        def elsewhere(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
            truth.responses[0].partitions[0].records = b""
            truth.responses[0].partitions[0].preferred_read_replica = 2
            return truth

        first.script.append(elsewhere)
        # The replica lags: what it has not got yet is out of its range, and read from the leader.
        properties = {**QUICK, "client.rack": "r2", "fetch.max.bytes": "300"}
        second.script.extend([honest] * 2 + [refusal(ErrorCode.OFFSET_OUT_OF_RANGE)])
        assert offsets(first, properties=properties) == list(range(100))
        assert first.fetches[0].rack_id == "r2"
        assert len(second.fetches) == 3


# --- damage ------------------------------------------------------------------------------------------------


def spoiled(where: int, change: Callable[[bytearray], Any]) -> list[bytes]:
    batches = [bytearray(one) for one in BATCHES]
    change(batches[where])
    return [bytes(one) for one in batches]


def flip(batch_: bytearray) -> None:
    batch_[80] ^= 0x55


def wrong_size(batch_: bytearray) -> None:
    batch_[8:12] = (int.from_bytes(batch_[8:12], "big") + 40).to_bytes(4, "big")


def wrong_magic(batch_: bytearray) -> None:
    batch_[16] = 9


def tiny_size(batch_: bytearray) -> None:
    batch_[8:12] = (3).to_bytes(4, "big")


def serve(broker: ScriptedBroker, batches: list[bytes]) -> None:
    """Have a broker send damaged bytes of batches whose places it knows."""

    def damaged(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
        data = truth.responses[0].partitions[0]
        for good, bad in zip(BATCHES, batches, strict=True):
            data.records = bytes(data.records or b"").replace(good, bad)
        return truth

    broker.script.extend([damaged] * 1000)


@pytest.mark.parametrize("change", [flip, wrong_size, wrong_magic, tiny_size])
@pytest.mark.parametrize("where", [0, 4, 9])
@pytest.mark.parametrize("limit", ["8388608", "600"])
def test_damage_takes_its_batch_and_no_more(
    change: Callable[[bytearray], Any], where: int, limit: str
) -> None:
    with ScriptedBroker(BATCHES) as broker:
        serve(broker, spoiled(where, change))
        with pytest.raises(CorruptBatch, match=r"the answer of 127.0.0.1:\d+ for t-0@"):
            offsets(broker, properties={**QUICK, "fetch.max.bytes": limit})
        counters = ReadCounters()
        found = offsets(
            broker, reading=SKIPPING, counters=counters, properties={**QUICK, "fetch.max.bytes": limit}
        )
        lost = set(range(100)) - set(found)
        assert found == sorted(found)
        assert set(range(where * 10, where * 10 + 10)) <= lost
        assert counters.corrupt_batches >= 1
        missing = {offset for start, end in counters.missing for offset in range(start, end)}
        assert missing == lost
        if limit == "8388608" and where < 9:
            assert len(lost) == 10


def test_random_bytes_are_damage_and_nothing_worse() -> None:
    chance = Random(5)
    for _ in range(60):
        with ScriptedBroker(BATCHES) as broker:

            def noise(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
                data = truth.responses[0].partitions[0]
                spoilt = bytearray(data.records or b"")
                for _ in range(chance.choice((1, 5, 50))):
                    spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                data.records = bytes(spoilt)
                return truth

            broker.script.extend([noise] * 3)
            counters = ReadCounters()
            properties = {**QUICK, "fetch.max.bytes": "700"}
            found = offsets(
                broker, reading=SKIPPING, counters=counters, fail_on_data_loss=False, properties=properties
            )
            missing = {offset for start, end in counters.missing for offset in range(start, end)}
            assert found == sorted(set(found))
            assert set(found) | missing == set(range(100))
