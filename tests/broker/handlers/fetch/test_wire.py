"""What the hand-written encoding of Fetch responses makes is what the codec makes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.handlers.fetch.wire import UNKNOWN, encode_rows, is_plain
from kcli.broker.replication.fetch_data import FetchedPartition, FetchPartition
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.schema.declaration import codec
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.index import transaction_index

VERSIONS = range(19)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
errors = st.sampled_from([0, 0, 1, 3, 56, 100])
aborted = st.none() | st.lists(st.tuples(longs, longs), max_size=200)
records = st.none() | st.binary(max_size=200) | st.integers(0, 40_000).map(bytes)
topics = st.sampled_from(
    [("a", b"a" * 16), ("b", b"b" * 16), ("é" * 100, bytes(range(16))), (None, b"c" * 16)]
)


@st.composite
def fetched(draw: st.DrawFn) -> FetchedPartition:
    topic, topic_id = draw(topics)
    row = FetchedPartition(FetchPartition(topic, topic_id, draw(ints), 0, 0), draw(errors))
    row.high_watermark, row.last_stable_offset, row.log_start_offset = draw(st.tuples(longs, longs, longs))
    row.records = draw(records)
    row.preferred_read_replica = draw(st.sampled_from([-1, -1, 5]))
    found = draw(aborted)
    if found is not None:
        row.aborted = [transaction_index.AbortedTransaction(*each, 0, 0) for each in found]
    return row


def message(rows: list[FetchedPartition], version: int, error_code: int, session_id: int) -> FetchResponse:
    response = FetchResponse(error_code=error_code, session_id=session_id, responses=[])
    for row in rows:
        name, topic_id = row.request.topic or "", row.request.topic_id
        key: Any = topic_id if version >= 13 else name
        last = response.responses[-1] if response.responses else None
        if last is None or (last.topic_id if version >= 13 else last.topic) != key:
            last = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[])
            response.responses.append(last)
        code = 6 if row.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version <= 5 else row.error_code
        data = PartitionData(
            partition_index=row.request.index,
            error_code=code,
            high_watermark=row.high_watermark,
            last_stable_offset=row.last_stable_offset,
            log_start_offset=row.log_start_offset,
            preferred_read_replica=row.preferred_read_replica if version >= 11 else -1,
            records=b"" if row.records is None else row.records,  # type: ignore[arg-type]
        )
        if row.aborted is not None:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in row.aborted
            ]
        elif code not in UNKNOWN:
            data.aborted_transactions = None
        last.partitions.append(data)
    return response


@given(
    version=st.sampled_from(VERSIONS),
    rows=st.lists(fetched(), max_size=5),
    error_code=st.sampled_from([0, 70]),
    session_id=ints,
)
def test_rows_are_written_as_the_codec_does(
    version: int, rows: list[FetchedPartition], error_code: int, session_id: int
) -> None:
    if version < 7:
        error_code = session_id = 0
    expected = codec(FetchResponse, version).encode(message(rows, version, error_code, session_id))
    body = encode_rows(rows, version, error_code=error_code, session_id=session_id)
    assert body == expected


class InFile:
    """Stands for records in a file."""

    def __len__(self) -> int:
        return 300


def test_records_in_files_stay_there() -> None:
    rows = [FetchedPartition(FetchPartition("t", ZERO_UUID, index, 0, 0)) for index in range(2)]
    rows[0].records = in_file = InFile()  # type: ignore[assignment]
    rows[1].records = b"here"
    parts = encode_rows(rows, 12, error_code=0, session_id=0)
    assert isinstance(parts, list)
    assert [part for part in parts if type(part) is not bytes] == [in_file]
    rows[0].records = bytes(300)
    assert b"".join(bytes(300) if part is in_file else part for part in parts) == encode_rows(
        rows, 12, error_code=0, session_id=0
    )


def test_who_leads_and_where_logs_part_is_for_the_codec() -> None:
    row = FetchedPartition(FetchPartition("t", ZERO_UUID, 0, 0, 0))
    assert is_plain([row], 12)
    row.current_leader = 1, 2
    assert is_plain([row], 11)
    assert not is_plain([row], 12)
    row.current_leader, row.diverging = None, (1, 2)
    assert not is_plain([row], 12)
