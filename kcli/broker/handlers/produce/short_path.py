"""Produce of one batch to one partition, read, appended and answered in one go.

That is what most small producers send, and at their rate every call counts. Whatever is not of this shape,
or not settled by the append alone (acks=0, followers to wait for, an internal topic), is left to
`produce.produce` before anything has happened.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from kcli.broker.handlers.produce.handler import YIELD_BYTES, check_one_batch, failed_produce, refused_row
from kcli.broker.handlers.produce.slow_batches import LOOP_DECOMPRESSED_BYTES
from kcli.broker.handlers.produce.wire import FLEXIBLE_FROM, TOPIC_IDS_FROM, ProduceData, one_row_answer
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.log_appender import NOT_PLAIN
from kcli.storage.log.log_validator import TooMuchToRead

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.replication.partition import Partition
    from kcli.protocol.messages.produce import ProduceResponse

FIRST_VERSION = 5
"""Before, an answer has no log start; that is left to `produce.produce`, too."""

_PLAIN_HEAD = Struct(">hhiih")
"""No transactional id, acks, timeout, one topic, length of its name."""
_PLAIN_PARTITION = Struct(">iii")
"""One partition, its index, size of its records."""
_FLEXIBLE_HEAD = Struct(">BBhiBB")
"""The same behind the header's tags."""
_FLEXIBLE_PARTITION = Struct(">BiB")
_PLAIN_HEAD_SIZE = _PLAIN_HEAD.size
_FLEXIBLE_HEAD_SIZE = _FLEXIBLE_HEAD.size
_read_plain_head = _PLAIN_HEAD.unpack_from
_read_plain_partition = _PLAIN_PARTITION.unpack_from
_read_flexible_head = _FLEXIBLE_HEAD.unpack_from
_read_flexible_partition = _FLEXIBLE_PARTITION.unpack_from
_NO_TAGS = b"\x00\x00\x00"
_NEVER = 2**63 - 1

Read = tuple[int, bytes, int, memoryview]
"""Acks, topic, partition and records."""


def produce_directly(
    context: RequestContext, buffer: memoryview, position: int, end: int
) -> list[bytes] | ProduceResponse | None:
    """Handle a request, of which `buffer[position:end]` is the body; None if it is not of this shape."""
    version = context.api_version
    if not FIRST_VERSION <= version < TOPIC_IDS_FROM or end - position > YIELD_BYTES:
        return None
    try:
        request = (
            read_flexible(buffer, position, end)
            if version >= FLEXIBLE_FROM
            else read_plain(buffer, position, end)
        )
    except (StructError, IndexError):
        return None  # Cut short; reading it in full says where.
    if request is None:
        return None
    acks, name, index, records = request
    broker = context.node
    partition = broker.replica_manager.direct.get((name, index))
    if partition is None or not partition.is_alone or (acks != 1 and acks != -1):
        return None
    log = partition.log
    if partition.writing is not None or log.local.config.flush_messages < _NEVER:
        return None  # It may have to wait for the disk.
    append_time = log_start_offset = -1
    try:
        offset = partition.append_plain(records, broker.wall_ms())
        if offset == NOT_PLAIN:
            check_one_batch(records, version)
            log_start_offset = log.log_start_offset
            info = partition.append(
                records,
                acks=acks,
                now_ms=broker.wall_ms(),
                max_decompressed=LOOP_DECOMPRESSED_BYTES,
                try_plain=False,
            )
            offset, append_time = info.first_offset, info.log_append_time
    except TooMuchToRead:
        return None
    except KafkaError as error:
        return _refusal(partition, records, acks, error, log_start_offset)
    pack, size, head, tail = one_row_answer(name, version)
    return [
        pack(size, context.correlation_id, head, index, 0, offset, append_time, log.log_start_offset, tail)
    ]


def read_plain(buffer: memoryview, position: int, end: int) -> Read | None:
    """Read a request before the flexible versions; None if it is not of this shape."""
    no_id, acks, _, topic_count, size = _read_plain_head(buffer, position)
    start = position + _PLAIN_HEAD_SIZE
    position = start + size
    if no_id != -1 or topic_count != 1 or size < 0:
        return None
    partition_count, index, size = _read_plain_partition(buffer, position)
    if partition_count != 1 or size < 0 or position + 12 + size != end:
        return None
    return acks, buffer[start:position].tobytes(), index, buffer[position + 12 : end]


def read_flexible(buffer: memoryview, position: int, end: int) -> Read | None:
    """Read a request of the flexible versions; None if it is not of this shape, or of more than 2 MB."""
    tags, no_id, acks, _, topic_count, size = _read_flexible_head(buffer, position)
    if tags or no_id or topic_count != 2 or not 0 < size <= 0x7F:
        return None
    start = position + _FLEXIBLE_HEAD_SIZE
    position = start + size - 1
    partition_count, index, size = _read_flexible_partition(buffer, position)
    if partition_count != 2 or not size:
        return None
    name = buffer[start:position].tobytes()
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
    return acks, name, index, buffer[position:stop]


def _refusal(
    partition: Partition, records: memoryview, acks: int, error: KafkaError, log_start_offset: int
) -> ProduceResponse:
    data = ProduceData(None, acks, 0, [(partition.topic, ZERO_UUID, [(partition.index, records)])], 0)
    response = failed_produce(data, error)
    assert response is not None
    row = response.responses[0].partition_responses[0]
    row.log_start_offset = refused_row(partition.index, error, log_start_offset)[4]
    return response
