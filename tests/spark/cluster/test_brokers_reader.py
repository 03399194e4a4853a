"""Reading splits from brokers that behave, misbehave, move, lose data and send damage."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kcli.errors import KcliError
from kcli.protocol.compression import Codec
from kcli.protocol.control_records import ControlRecordType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from kcli.spark.cluster.brokers_reader import BrokersReader
from kcli.spark.cluster.cluster_access import ClusterAccess
from kcli.spark.columns.corrupt_batch import CorruptBatch
from kcli.spark.ranges.data_loss import DataLoss
from kcli.spark.reading import OffsetInterval, OnCorrupt, ReadCounters, Reading
from kcli.spark.split import Split
from tests.spark.cluster.scripted_broker import TOPIC, Script, ScriptedBroker, batch, marker, refusal

QUICK = {"retry.backoff.ms": "1", "reconnect.backoff.ms": "1", "default.api.timeout.ms": "5000",
         "request.timeout.ms": "2000", "fetch.max.wait.ms": "1"}  # fmt: skip
IMPATIENT = {**QUICK, "default.api.timeout.ms": "150"}
READING = Reading(columns=("offset", "value"))
SKIPPING = replace(READING, on_corrupt=OnCorrupt.SKIP)
BATCHES = [batch(base, 10) for base in range(0, 100, 10)]


def offsets(
    broker: ScriptedBroker,
    start: int = 0,
    end: int = 100,
    *,
    reading: Reading = READING,
    counters: ReadCounters | None = None,
    fail_on_data_loss: bool = True,
    properties: dict[str, str] = QUICK,
) -> list[int]:
    """Read a split and check that every value belongs to its offset."""
    reader = BrokersReader(ClusterAccess(broker.bootstrap, properties), fail_on_data_loss=fail_on_data_loss)
    found: list[int] = []
    for rows in reader.read(Split(TOPIC, 0, start, end), reading, counters or ReadCounters()):
        for row in rows.to_pylist():
            assert row["value"].rstrip(b".") == b"v%d" % row["offset"]
            found.append(row["offset"])
    return found


@pytest.mark.parametrize(("start", "end"), [(0, 100), (0, 1), (15, 16), (15, 87), (99, 100), (30, 30)])
@pytest.mark.parametrize("limit", ["1", "500", "8388608"])
def test_a_split_gives_its_offsets_and_no_other(start: int, end: int, limit: str) -> None:
    with ScriptedBroker(BATCHES) as broker:
        properties = {**QUICK, "max.partition.fetch.bytes": limit}
        assert offsets(broker, start, end, properties=properties) == list(range(start, end))


@pytest.mark.parametrize("version", [0, 2, 3, 4, 10, 11, 12, 13, 18])
def test_brokers_of_every_version_are_read(version: int) -> None:
    with ScriptedBroker(BATCHES, max_fetch_version=version) as broker:
        properties = {**QUICK, "max.partition.fetch.bytes": "100"}
        assert offsets(broker, 5, 95, properties=properties) == list(range(5, 95))


def test_a_batch_larger_than_the_limit_doubles_it() -> None:
    with ScriptedBroker([batch(0, 100, value_bytes=500)], max_fetch_version=2) as broker:
        properties = {**QUICK, "max.partition.fetch.bytes": "20000"}
        assert offsets(broker, properties=properties) == list(range(100))
        limits = [fetch.topics[0].partitions[0].partition_max_bytes for fetch in broker.fetches]
        assert limits[0] == 20_000
        assert limits[1] >= len(broker.batches[0])
        assert len(limits) == 2


def test_an_entry_that_claims_to_be_larger_than_anything_is_damage() -> None:
    huge = bytearray(batch(0, 100))
    huge[8:12] = (2**31 - 100).to_bytes(4, "big")
    with ScriptedBroker(max_fetch_version=2) as broker:
        broker.batches = [bytes(huge)]
        with pytest.raises(CorruptBatch, match="offsets 0 to 99: it is cut short at"):
            offsets(broker)
        counters = ReadCounters()
        assert offsets(broker, reading=SKIPPING, counters=counters) == []
        assert counters.missing == [OffsetInterval(0, 100)]


def test_a_fetch_is_on_its_way_while_the_one_before_is_decoded() -> None:
    with ScriptedBroker(BATCHES) as broker:
        reader = BrokersReader(ClusterAccess(broker.bootstrap, {**QUICK, "fetch.max.bytes": "1000"}))
        rows = reader.read(Split(TOPIC, 0, 0, 100), READING, ReadCounters())
        first = next(rows)
        asked = [fetch.topics[0].partitions[0].fetch_offset for fetch in broker.fetches]
        assert asked[-1] <= first.num_rows  # it may still travel
        rest = sum(batch.num_rows for batch in rows)
        assert first.num_rows + rest == 100
        asked = [fetch.topics[0].partitions[0].fetch_offset for fetch in broker.fetches]
        assert asked == sorted(set(asked)), "nothing is fetched twice"


def test_what_lies_behind_the_end_is_hardly_fetched() -> None:
    with ScriptedBroker([batch(base, 10, value_bytes=1000) for base in range(0, 1000, 10)]) as broker:
        properties = {**QUICK, "fetch.max.bytes": "200000"}
        assert offsets(broker, 0, 210, properties=properties) == list(range(210))
        limits = [fetch.topics[0].partitions[0].partition_max_bytes for fetch in broker.fetches]
        assert len(limits) == 2
        assert limits[1] < 150_000


def test_the_connection_is_closed_when_reading_stops_early() -> None:
    with ScriptedBroker(BATCHES) as broker:
        reader = BrokersReader(ClusterAccess(broker.bootstrap, {**QUICK, "fetch.max.bytes": "300"}))
        rows = reader.read(Split(TOPIC, 0, 0, 100), READING, ReadCounters())
        next(rows)
        rows.close()  # type: ignore[attr-defined]  # a socket left open would be a warning, and that an error


def test_a_reader_travels_to_tasks_and_shows_no_secret() -> None:
    access = ClusterAccess("h:1", {"client.id": "me", "sasl.jaas.config": "password=hunter2"})
    reader = pickle.loads(pickle.dumps(BrokersReader(access, fail_on_data_loss=False)))
    assert reader == BrokersReader(access, fail_on_data_loss=False)
    assert "hunter2" not in repr(reader)
    assert "me" in repr(reader)


# --- trouble -----------------------------------------------------------------------------------------------


def hang_up(request: FetchRequest, truth: FetchResponse) -> None:
    return None


def frame(data: bytes) -> Script:
    return lambda request, truth: data


def honest(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
    return truth


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
        broker.script.extend([hang_up] * 1000)
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
    with ScriptedBroker(BATCHES) as broker:
        bootstrap = broker.bootstrap
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


# --- data loss ---------------------------------------------------------------------------------------------


def test_offsets_that_retention_took_are_data_loss() -> None:
    with ScriptedBroker(BATCHES[3:], log_start=30) as broker:
        with pytest.raises(DataLoss, match="offsets 5 to 29 are gone, there are 30 to 99"):
            offsets(broker, 5)
        counters = ReadCounters()
        assert offsets(broker, 5, counters=counters, fail_on_data_loss=False) == list(range(30, 100))
        assert counters.missing == [OffsetInterval(5, 30)]


def test_offsets_may_go_while_they_are_read() -> None:
    with ScriptedBroker(BATCHES) as broker:

        def delete(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
            broker.log_start = 65
            broker.batches = BATCHES[6:]
            return broker.fetched(request, 18)

        broker.script.extend([honest, delete])
        counters = ReadCounters()
        properties = {**QUICK, "fetch.max.bytes": "300"}
        found = offsets(broker, counters=counters, fail_on_data_loss=False, properties=properties)
        gap = counters.missing[0]
        assert gap.end == 65
        assert found == [*range(gap.start), *range(65, 100)]


def test_everything_gone_leaves_nothing_to_read() -> None:
    with ScriptedBroker([batch(200, 5)], log_start=200) as broker:
        counters = ReadCounters()
        assert offsets(broker, counters=counters, fail_on_data_loss=False) == []
        assert counters.missing == [OffsetInterval(0, 100)]


def test_a_truncated_log_is_data_loss() -> None:
    with ScriptedBroker(BATCHES[:5]) as broker:
        with pytest.raises(DataLoss, match="offsets 60 to 99 are gone, there are 0 to 49"):
            offsets(broker, 60)
        counters = ReadCounters()
        assert offsets(broker, 60, counters=counters, fail_on_data_loss=False) == []
        assert counters.missing == [OffsetInterval(60, 100)]


def test_an_offset_that_came_back_is_read() -> None:
    with ScriptedBroker(BATCHES) as broker:
        broker.script.append(refusal(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert offsets(broker) == list(range(100))


def test_holes_of_compaction_are_no_loss() -> None:
    with ScriptedBroker([BATCHES[0], BATCHES[4], BATCHES[9]]) as broker:
        expected = [*range(10), *range(40, 50), *range(90, 100)]
        for limit in ("1", "300", "8000000"):
            assert offsets(broker, properties={**QUICK, "fetch.max.bytes": limit}) == expected


# --- transactions ------------------------------------------------------------------------------------------

COMMITTED = replace(READING, read_committed=True)
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
LOG = [
    batch(0, 3, producer_id=7),  # aborted
    batch(3, 2, producer_id=8),  # committed
    batch(5, 2),
    marker(7, 7, ABORT),
    batch(8, 2, producer_id=7),  # committed
    marker(10, 8, COMMIT),
    marker(11, 7, COMMIT),
    batch(12, 3, producer_id=7),  # aborted
    batch(15, 1, producer_id=8),  # aborted, and its marker is never seen
    marker(16, 7, ABORT),
    batch(17, 2, producer_id=7),  # committed
    marker(19, 7, COMMIT),
    batch(20, 1),
]
LISTED = [
    AbortedTransaction(producer_id=id_, first_offset=first) for id_, first in ((7, 0), (7, 12), (8, 15))
]
SEEN = [3, 4, 5, 6, 8, 9, 17, 18, 20]


@pytest.mark.parametrize("limit", ["1", "150", "400", "8388608"])
@pytest.mark.parametrize("start", [0, 1, 6, 8, 13, 16])
def test_read_committed_gives_no_row_of_what_was_rolled_back(limit: str, start: int) -> None:
    with ScriptedBroker(LOG) as broker:

        def listed(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
            offset = request.topics[0].partitions[0].fetch_offset
            spans = {0: 7, 12: 16, 15: 99}
            data = truth.responses[0].partitions[0]
            data.aborted_transactions = [one for one in LISTED if spans[one.first_offset] >= offset]
            return truth

        broker.script.extend([listed] * 100)
        found = offsets(
            broker, start, 21, reading=COMMITTED, properties={**QUICK, "max.partition.fetch.bytes": limit}
        )
        assert found == [offset for offset in SEEN if offset >= start]
        assert all(fetch.isolation_level == 1 for fetch in broker.fetches)


def test_read_uncommitted_gives_all_rows_but_no_marker() -> None:
    with ScriptedBroker(LOG) as broker:
        assert offsets(broker, 0, 21) == [*range(7), 8, 9, *range(12, 16), 17, 18, 20]


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


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    with ScriptedBroker([batch(base, 10, codec=codec) for base in range(0, 100, 10)]) as broker:
        assert offsets(broker, 3, 98) == list(range(3, 98))
