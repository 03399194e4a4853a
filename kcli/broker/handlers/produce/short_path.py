"""Produce of one batch to one partition, read, appended and answered in one go.

Most small producers send such requests, and at their rate every call counts. `reader` reads requests of this
shape in a short form and all others in full. `append` leaves to the handler, before it has changed anything,
what needs more than the append: acks=0, followers to wait for, an internal topic, a denied one.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from kcli.broker.handlers.produce.refusals import (
    check_one_batch,
    failed_produce,
    is_transactional,
    refused_row,
)
from kcli.broker.handlers.produce.slow_batches import LOOP_DECOMPRESSED_BYTES, YIELD_BYTES, must_read_long
from kcli.broker.handlers.produce.wire import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    ProduceData,
    decoder,
    one_row_frame,
)
from kcli.broker.network.request_context import CloseConnection
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.schema.declaration import DecodeError
from kcli.security.acl import Operation, ResourceType
from kcli.storage.log.log_appender import NOT_PLAIN
from kcli.storage.log.log_validator import TooMuchToRead

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.handlers.produce.wire import ShortProduce
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.responses import Frame
    from kcli.protocol.messages.produce import ProduceResponse

    Reader = Callable[[memoryview, int, int], tuple[ProduceData | ShortProduce, int]]

FIRST_VERSION = 5
"""The first version whose response has a log start offset; those before have no short form."""

_PLAIN_HEAD = Struct(">hhiih")
"""No transactional id, acks, timeout, one topic, length of its name."""
_PLAIN_PARTITION = Struct(">iii")
"""One partition, its index, size of its records."""
_FLEXIBLE_HEAD = Struct(">BhiBB")
_FLEXIBLE_PARTITION = Struct(">BiB")
_IDENTIFIED_HEAD = Struct(">BhiB16sBi")
"""No transactional id, acks, timeout, one topic, its id, one partition, its index."""
_PLAIN_HEAD_SIZE = _PLAIN_HEAD.size
_FLEXIBLE_HEAD_SIZE = _FLEXIBLE_HEAD.size
_read_plain_head = _PLAIN_HEAD.unpack_from
_read_plain_partition = _PLAIN_PARTITION.unpack_from
_IDENTIFIED_HEAD_SIZE = _IDENTIFIED_HEAD.size
_read_identified_head = _IDENTIFIED_HEAD.unpack_from
_read_flexible_head = _FLEXIBLE_HEAD.unpack_from
_read_flexible_partition = _FLEXIBLE_PARTITION.unpack_from
_NO_TAGS = b"\x00\x00\x00"
_NEVER = 2**63 - 1
_WRITE, _TOPIC = Operation.WRITE, ResourceType.TOPIC


def reader(version: int) -> Reader:
    """Return what reads a request body of this version for the handler. It raises `DecodeError`."""
    read_in_full = decoder(version)
    if version < FIRST_VERSION:
        return read_in_full
    if version >= TOPIC_IDS_FROM:
        return _identified_reader(read_in_full, version)
    make = _flexible_reader if version >= FLEXIBLE_FROM else _plain_reader
    return make(read_in_full, version)


def in_full(request: ShortProduce) -> ProduceData:
    """Return the request of a short form. Raises `CloseConnection` if it cannot be read after all."""
    try:
        return decoder(request[-1])(*request[4:7])[0]
    except DecodeError as error:
        raise CloseConnection(error.message) from error


def append(request: ShortProduce, context: RequestContext) -> Frame | ProduceResponse | None:
    """Append and return the response; None leaves the request to the handler.

    Raises `TooMuchToRead`, with nothing done, for records that a thread has to read.
    """
    acks, name, index, records, _, position, end, version = request
    node = context.node
    manager = node.replica_manager
    known = manager.by_name_bytes if version < TOPIC_IDS_FROM else manager.by_topic_id
    partition = known.get((name, index))
    if (
        partition is None
        or not partition.is_alone
        or (acks != 1 and acks != -1)
        or end - position > YIELD_BYTES
        or (context.access is not None and not context.is_plainly_allowed(_WRITE, _TOPIC, partition.topic))
    ):
        return None
    log = partition.log
    if partition.writing is not None or log.local.config.flush_messages < _NEVER:
        return None  # It may have to wait for the disk.
    append_time = log_start_offset = -1
    try:
        offset = partition.append_plain(records, node.wall_ms())
        if offset == NOT_PLAIN:
            if must_read_long(records):
                raise TooMuchToRead("a large compressed batch")
            if is_transactional(records):
                return None
            check_one_batch(records, version)
            log_start_offset = log.log_start_offset
            info = partition.append(
                records,
                acks=acks,
                now_ms=node.wall_ms(),
                max_decompressed=LOOP_DECOMPRESSED_BYTES,
                try_plain=False,
            )
            offset, append_time = info.first_offset, info.log_append_time
    except TooMuchToRead:
        raise  # No refusal: the handler reads in a thread.
    except KafkaError as error:
        return _refusal(request, error, log_start_offset)
    pack, size, head, tail = one_row_frame(name, version)
    return (
        pack(size, context.correlation_id, head, index, 0, offset, append_time, log.log_start_offset, tail),
    )


def _plain_reader(read_in_full: Reader, version: int) -> Reader:
    """Return what reads versions before the flexible ones."""

    def read(buffer: memoryview, start: int, end: int) -> tuple[ProduceData | ShortProduce, int]:
        try:
            no_id, acks, _, topic_count, size = _read_plain_head(buffer, start)
            name_start = start + _PLAIN_HEAD_SIZE
            position = name_start + size
            if no_id == -1 and topic_count == 1 and size >= 0:
                partition_count, index, size = _read_plain_partition(buffer, position)
                if partition_count == 1 and size >= 0 and position + 12 + size == end:
                    name = buffer[name_start:position].tobytes()
                    return (acks, name, index, buffer[position + 12 : end], buffer, start, end, version), end
        except StructError:
            pass  # Cut short; the decoder says where.
        return read_in_full(buffer, start, end)

    return read


def _flexible_reader(read_in_full: Reader, version: int) -> Reader:
    """Return what reads the flexible versions; a short form has at most 2 MB of records."""

    def read(buffer: memoryview, start: int, end: int) -> tuple[ProduceData | ShortProduce, int]:
        try:
            no_id, acks, _, topic_count, size = _read_flexible_head(buffer, start)
            name_start = start + _FLEXIBLE_HEAD_SIZE
            position = name_start + size - 1
            if no_id or topic_count != 2 or not 0 < size <= 0x7F:
                return read_in_full(buffer, start, end)
            partition_count, index, size = _read_flexible_partition(buffer, position)
            name = buffer[name_start:position].tobytes()
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
                        return read_in_full(buffer, start, end)
            stop = position + size - 1
            if partition_count == 2 and size and stop + 3 == end and buffer[stop:end] == _NO_TAGS:
                return (acks, name, index, buffer[position:stop], buffer, start, end, version), end
        except (StructError, IndexError):
            pass  # Cut short; the decoder says where.
        return read_in_full(buffer, start, end)

    return read


def _identified_reader(read_in_full: Reader, version: int) -> Reader:
    """Return what reads the versions with topic ids; a short form has at most 2 MB of records."""

    def read(buffer: memoryview, start: int, end: int) -> tuple[ProduceData | ShortProduce, int]:
        try:
            head = _read_identified_head(buffer, start)
            no_id, acks, _, topic_count, topic_id, partition_count, index = head
            if no_id or topic_count != 2 or partition_count != 2:
                return read_in_full(buffer, start, end)
            position = start + _IDENTIFIED_HEAD_SIZE + 1
            size = buffer[position - 1]
            if size >= 0x80:
                byte = buffer[position]
                size = size & 0x7F | (byte & 0x7F) << 7
                position += 1
                if byte >= 0x80:
                    byte = buffer[position]
                    size |= byte << 14
                    position += 1
                    if byte >= 0x80:
                        return read_in_full(buffer, start, end)
            stop = position + size - 1
            if size and stop + 3 == end and buffer[stop:end] == _NO_TAGS:
                return (acks, topic_id, index, buffer[position:stop], buffer, start, end, version), end
        except (StructError, IndexError):
            pass  # Cut short; the decoder says where.
        return read_in_full(buffer, start, end)

    return read


def _refusal(request: ShortProduce, error: KafkaError, log_start_offset: int) -> ProduceResponse:
    response = failed_produce(request, error)
    assert response is not None
    row = response.responses[0].partition_responses[0]
    row.log_start_offset = refused_row(row.index, error, log_start_offset)[4]
    return response
