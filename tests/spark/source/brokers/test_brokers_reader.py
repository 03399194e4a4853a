"""Reading splits from brokers of every version, with transactions, and where data was lost."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from kcli.protocol.records.control_records import ControlRecordType
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.source.brokers.brokers_reader import BrokersReader
from kcli.spark.source.brokers.cluster_access import ClusterAccess
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.split import OffsetInterval, ReadCounters, Split
from tests.spark.source.brokers.read_splits import BATCHES, QUICK, READING, SKIPPING, honest, offsets
from tests.spark.source.brokers.scripted_broker import TOPIC, ScriptedBroker, batch, marker, refusal


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


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    with ScriptedBroker([batch(base, 10, codec=codec) for base in range(0, 100, 10)]) as broker:
        assert offsets(broker, 3, 98) == list(range(3, 98))


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
