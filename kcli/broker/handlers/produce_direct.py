"""Produce of one batch to one partition, read, appended and answered in one go.

That is what most small producers send, and at their rate every call counts. Whatever is not of this shape,
or not settled by the append alone (acks=0, followers to wait for, an internal topic), is left to
`produce.produce` before anything has happened.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from kcli.broker.handlers.produce import (
    YIELD_BYTES,
    check_one_batch,
    failed,
    refused_row,
)
from kcli.broker.handlers.produce_reading import LOOP_DECOMPRESSED_BYTES
from kcli.broker.handlers.produce_wire import FLEXIBLE_FROM, TOPIC_IDS_FROM, ProduceData, encode_one_row
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log_validator import TooMuchToRead
from kcli.storage.plain_append import NOT_PLAIN

if TYPE_CHECKING:
    from kcli.broker.handlers.produce_wire import Topic
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.produce import ProduceResponse

_PLAIN_HEAD = Struct(">hhiih")
"""No transactional id, acks, timeout, one topic, length of its name."""
_PLAIN_PARTITION = Struct(">iii")
"""One partition, its index, size of its records."""
_FLEXIBLE_HEAD = Struct(">BhiBB")
_FLEXIBLE_PARTITION = Struct(">BiB")
_PLAIN_HEAD_SIZE = _PLAIN_HEAD.size
_FLEXIBLE_HEAD_SIZE = _FLEXIBLE_HEAD.size
_read_plain_head = _PLAIN_HEAD.unpack_from
_read_plain_partition = _PLAIN_PARTITION.unpack_from
_read_flexible_head = _FLEXIBLE_HEAD.unpack_from
_read_flexible_partition = _FLEXIBLE_PARTITION.unpack_from
_read_length = Struct(">i").unpack_from
_MIN_BATCH_SIZE = 61
_NO_TAGS = b"\x00\x00\x00"
_FIRST_VERSION = 3
_NEVER = 2**63 - 1


def produce_directly(
    context: RequestContext, buffer: memoryview, position: int, end: int
) -> bytes | ProduceResponse | None:
    """Handle the request body in `buffer[position:end]`; None if it is not one for here."""
    version = context.api_version
    if not _FIRST_VERSION <= version < TOPIC_IDS_FROM or end - position > YIELD_BYTES:
        return None
    try:
        if version >= FLEXIBLE_FROM:
            no_id, acks, _, topic_count, size = _read_flexible_head(buffer, position)
            if no_id or topic_count != 2 or size > 0x7F:
                return None
            start = position + _FLEXIBLE_HEAD_SIZE
            position = start + size - 1
            partition_count, index, size = _read_flexible_partition(buffer, position)
            if partition_count != 2 or not size:
                return None
            name = bytes(buffer[start:position])
            position += 6
            if size >= 0x80:
                byte = buffer[position]
                size = size & 0x7F | (byte & 0x7F) << 7
                position += 1
                if byte >= 0x80:
                    byte = buffer[position]
                    size |= byte << 14
                    position += 1
                    if byte >= 0x80:
                        return None
            stop = position + size - 1
            if stop + 3 != end or buffer[stop:end] != _NO_TAGS:
                return None
        else:
            no_id, acks, _, topic_count, size = _read_plain_head(buffer, position)
            if no_id != -1 or topic_count != 1 or size < 0:
                return None
            start = position + _PLAIN_HEAD_SIZE
            position = start + size
            partition_count, index, size = _read_plain_partition(buffer, position)
            name = bytes(buffer[start:position])
            position += 12
            stop = position + size
            if partition_count != 1 or stop != end or size < 0:
                return None
    except (StructError, IndexError):
        return None  # Cut short; reading it in full says where.
    manager = context.broker.replica_manager
    partition = manager.direct.get((name, index))
    if partition is None or not partition.is_alone or (acks != 1 and acks != -1):
        return None
    if partition.writing is not None or partition.log.config.flush_messages < _NEVER:
        return None  # It may have to wait for the disk.
    records = buffer[position:stop]
    log_start_offset = -1
    try:
        first_offset = partition.append_plain(records, context.broker.wall_ms())
        if first_offset != NOT_PLAIN:
            row = (index, 0, first_offset, -1, partition.log.log_start_offset)
            return encode_one_row(name, row, version)
        # Not compressed, not transactional, whole: nothing to check before the log does.
        if (
            size < _MIN_BATCH_SIZE
            or records[16] != 2
            or records[22]
            or _read_length(records, 8)[0] + 12 != stop - position
        ):
            check_one_batch(records, version)
        log_start_offset = partition.log.log_start_offset
        info = partition.append(
            records,
            acks=acks,
            now_ms=context.broker.wall_ms(),
            max_decompressed=LOOP_DECOMPRESSED_BYTES,
        )
    except TooMuchToRead:
        return None
    except KafkaError as error:
        topics: list[Topic] = [(partition.topic, ZERO_UUID, [(index, records)])]
        response = failed(ProduceData(None, acks, 0, topics, 0), error)
        assert response is not None
        response.responses[0].partition_responses[0].log_start_offset = refused_row(
            index, error, log_start_offset
        )[4]
        return response
    row = (index, 0, info.first_offset, info.log_append_time, info.log_start_offset)
    return encode_one_row(name, row, version)
