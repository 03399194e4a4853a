"""Checks of Produce that need no log, and the rows and responses with their errors."""

from __future__ import annotations

from struct import Struct

from kcli.broker.handlers.produce.wire import TOPIC_IDS_FROM, ProduceData, Row, ShortProduce, Topic
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.records.batch_header import CODEC_MASK, TRANSACTIONAL_BIT
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.log_validator import InvalidRecords

_BATCH_HEAD = Struct(">iibIh")
"""From byte 8: batch length, leader epoch, magic, CRC, attributes."""
_BATCH_HEAD_POSITION = 8
_MIN_BATCH_SIZE = 61
_MIN_ENTRY_SIZE = 17
"""The bytes of an entry up to its magic, with it."""
_LOG_OVERHEAD = 12
_SIZE = Struct(">i")
_MAX_ENTRY_LENGTH = 2**31 - 1 - _LOG_OVERHEAD
"""Above it the size of an entry is no number for Kafka, which does not expect that."""
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def failed_produce(request: ProduceData | ShortProduce, error: KafkaError) -> ProduceResponse | None:
    if type(request) is tuple:
        acks, name, index, version = *request[:3], request[-1]
        partitions: list[tuple[int, memoryview | None]] = [(index, None)]
        topic: Topic = (name.decode(errors="replace"), ZERO_UUID, partitions)
        if version >= TOPIC_IDS_FROM:
            topic = ("", name, partitions)
        request = ProduceData(None, acks, 0, [topic], 0)
    assert isinstance(request, ProduceData)
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[_error_row(index, error) for index, _ in partitions],
            )
            for name, topic_id, partitions in request.topics
        ]
    )


def refused_row(index: int, error: KafkaError, log_start_offset: int) -> Row:
    """Return the row for refused records; some errors show the log start."""
    return index, error.code, -1, -1, -1 if error.code in _WITHOUT_LOG_START else log_start_offset


def _error_row(index: int, error: KafkaError) -> PartitionProduceResponse:
    row = PartitionProduceResponse(index=index, error_code=error.code, base_offset=-1)
    explain(row, error)
    return row


def explain(row: PartitionProduceResponse, error: KafkaError) -> None:
    row.error_message = error.message
    if isinstance(error, InvalidRecords):
        row.record_errors = [
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in error.record_errors
        ]


def last_batches(topics: list[Topic]) -> list[Topic]:
    """Return the same topics, each partition once: with the last batch for it, as in Kafka's maps."""
    is_topic_repeated = len(topics) > 1 and len({topic[:2] for topic in topics}) < len(topics)
    if not is_topic_repeated and not any(
        len(rows) > 1 and len({row[0] for row in rows}) < len(rows) for _, _, rows in topics
    ):
        return topics
    batches: dict[tuple[str, bytes], dict[int, memoryview | None]] = {}
    for name, topic_id, rows in topics:
        batches.setdefault((name, topic_id), {}).update(rows)
    return [(*named, list(rows.items())) for named, rows in batches.items()]


def has_transactional_batch(request: ProduceData) -> bool:
    """Return whether any partition begins with a transactional batch (Kafka class `RequestUtils`)."""
    return any(is_transactional(records) for _, _, partitions in request.topics for _, records in partitions)


def is_transactional(records: memoryview | None) -> bool:
    """Return whether `records` begins with a whole transactional batch."""
    if records is None or len(records) < _MIN_BATCH_SIZE:
        return False
    length, _, magic, _, attributes = _BATCH_HEAD.unpack_from(records, _BATCH_HEAD_POSITION)
    is_whole: bool = length + _LOG_OVERHEAD <= len(records)
    return is_whole and magic == 2 and attributes & TRANSACTIONAL_BIT != 0


_MIN_ENTRY_LENGTH = 14
"""The smallest length of an entry of any magic."""


def check_one_batch(records: memoryview, version: int) -> None:
    """Raise `KafkaError` unless `records` is one batch that the version may carry.

    The first thing that Kafka would find wrong counts. A partial entry behind the batch is dropped.
    """
    size = len(records)
    if size < _MIN_BATCH_SIZE:
        _entry_size(records)
        raise KafkaError(ErrorCode.INVALID_RECORD, "there is no record batch")
    length, _, magic, _, attributes = _BATCH_HEAD.unpack_from(records, _BATCH_HEAD_POSITION)
    if magic != 2 or length + _LOG_OVERHEAD != size:
        size = _entry_size(records)
        if not size:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the record batch is cut short")
        if magic != 2:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"version {version} carries record batches of magic 2, not {magic}"
            )
        if size < _MIN_BATCH_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch cannot be as short as {size} bytes")
    if version < 7 and attributes & CODEC_MASK >= Codec.ZSTD:
        if attributes & CODEC_MASK > Codec.ZSTD:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown codec {attributes & CODEC_MASK}")
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 or later")
    if size < len(records) and _entry_size(records[size:]):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"version {version} carries exactly one record batch")


def _entry_size(data: memoryview) -> int:
    """Return the size of the entry at the beginning, 0 for a partial one (`ByteBufferLogInputStream`)."""
    if len(data) < _LOG_OVERHEAD:
        return 0
    length: int = _SIZE.unpack_from(data, _BATCH_HEAD_POSITION)[0]
    if length < _MIN_ENTRY_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"an entry of {length} bytes")
    if len(data) < _MIN_ENTRY_SIZE:
        return 0
    if data[_MIN_ENTRY_SIZE - 1] > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"an entry of magic {data[_MIN_ENTRY_SIZE - 1]}")
    if length > _MAX_ENTRY_LENGTH:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"an entry of {length} bytes")
    return length + _LOG_OVERHEAD if length + _LOG_OVERHEAD <= len(data) else 0
