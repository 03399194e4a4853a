"""Fetch that lists one partition, read and answered in one go.

Clients that keep no session, such as librdkafka, send such requests in a loop and wait for each response. So
do those that keep one, such as Java's, while they read one partition: it is the only one whose position has
changed (KIP-227). `reader` reads requests of this shape in a short form and all others in full. `read` leaves
to the handler what is not answered at once with records of that partition alone: nothing to read yet, news
of another partition of the session, an error, a denied topic, aborted transactions, or a client with a quota.
It has changed nothing then, except that an I/O error has failed the log directory, which the handler will
report.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.handlers.fetch.wire import TOPIC_IDS_FROM
from kcli.broker.network.outbox import SENDFILE_FROM
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.replication.fetch_data import partition_key
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.schema.declaration import DecodeError, codec
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import Operation, ResourceType
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.handlers.fetch.wire import ShortFetch
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.responses import Frame
    from kcli.broker.replication.fetch_data import FetchPartitionKey
    from kcli.broker.replication.fetch_session import FetchSession
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.storage.log.log_read import LogRead

PLAIN_VERSION = 11
"""The first version in which consumers may read from any replica, and the last before the flexible ones."""
_STATE_IN_TAG_FROM = 15

_PLAIN_HEAD = Struct(">iiiibiiih")
"""Replica, wait, fewest and most bytes, isolation, session and its epoch; one topic, length of its name."""
_PLAIN_PARTITION = Struct(">iiiqqiih")
"""One partition: index, leader epoch, offset, log start, most bytes; none forgotten; length of the rack."""
_FLEXIBLE_15 = Struct(">iiibiiB16sBiiqiqiIB")
"""The same without the replica, which followers have in a tag.

The name is an id, and behind the offset is the last epoch fetched. The last five bytes: no tags of partition
and topic, none forgotten, no rack, no tags.
"""
_FLEXIBLE_13 = Struct(">iiiibiiB16sBiiqiqiIB")
"""The same with the replica."""
_PLAIN_HEAD_SIZE = _PLAIN_HEAD.size
_PLAIN_PARTITION_SIZE = _PLAIN_PARTITION.size
_read_plain_head = _PLAIN_HEAD.unpack_from
_read_plain_partition = _PLAIN_PARTITION.unpack_from
_read_13, _read_15 = _FLEXIBLE_13.unpack_from, _FLEXIBLE_15.unpack_from
_NOTHING_MORE = 0x0000_0101
"""No tags of partition and topic; of what is forgotten, and of the rack, the compact length of nothing."""

_FLEXIBLE_FRAME = Struct(">iixihiB16sBihqqqBi")
"""Size, correlation id, no tags, throttle time, error, session; one topic, its id; one partition: index,
error, high watermark, last stable offset, log start, aborted transactions, preferred replica."""
_FLEXIBLE_FRAME_SIZE = _FLEXIBLE_FRAME.size - 4
_pack_flexible = _FLEXIBLE_FRAME.pack
_NO_TAGS = b"\x00\x00\x00"
"""Of partition, topic and response."""

_READ, _TOPIC = Operation.READ, ResourceType.TOPIC
_ISOLATIONS = (Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED)


def reader(version: int) -> Callable[[memoryview, int, int], tuple[FetchRequest | ShortFetch, int]]:
    """Return what reads a request body of this version for the handler. It raises `DecodeError`."""
    read_in_full = codec(FetchRequest, version).decode
    if version != PLAIN_VERSION and version < TOPIC_IDS_FROM:
        return read_in_full
    if version == PLAIN_VERSION:
        read_short = read_plain
    else:
        read_short = read_flexible if version >= _STATE_IN_TAG_FROM else read_flexible_13

    def read_either(buffer: memoryview, position: int, end: int) -> tuple[FetchRequest | ShortFetch, int]:
        found = read_short(buffer, position, end)
        return read_in_full(buffer, position, end) if found is None else (found, end)

    return read_either


def in_full(request: ShortFetch, version: int) -> FetchRequest:
    """Return the request of a short form. Raises `CloseConnection` if it cannot be read after all."""
    try:
        return codec(FetchRequest, version).decode(*request[-3:])[0]
    except DecodeError as error:
        raise CloseConnection(error.message) from error


def read(request: ShortFetch, context: RequestContext) -> Frame | None:
    """Return a frame with the records; None leaves the request to the handler."""
    (
        topic, index, epoch, offset, isolation, wait_ms, min_bytes, max_bytes, partition_max_bytes,
        session_id, session_epoch, _, _, _,
    ) = request  # fmt: skip
    node = context.node
    form = _FLEXIBLE if context.api_version >= TOPIC_IDS_FROM else _PLAIN
    partition = form.find(node.replica_manager, topic, index)
    if (
        partition is None
        or (epoch != -1 and epoch != partition.leader_epoch)
        or context.allowance is not None
        or (context.access is not None and not context.is_plainly_allowed(_READ, _TOPIC, partition.topic))
    ):
        return None
    log = partition.log
    if offset >= log.high_watermark:
        return None
    session = None
    if session_id:
        uses_ids = form is _FLEXIBLE
        session = node.fetch_sessions.consumer_session(session_id, session_epoch, uses_topic_ids=uses_ids)
        key = partition_key(partition.topic, topic if uses_ids else ZERO_UUID, index)
        if session is None or not _is_alone(session, key, context, isolation):
            return None
    try:
        most_bytes = min(max_bytes, partition_max_bytes, node.config.fetch_max_bytes)
        found = log.read(offset, most_bytes, isolation=_ISOLATIONS[isolation])
        records = found.file_slice
        if records is None or found.aborted:
            return None
        size = records.size
        if size < found.first_batch_size or (size < min_bytes and wait_ms > 0):
            return None
        head = form.head(context.correlation_id, session_id, topic, index, found, size)
        frame: Frame
        if size >= SENDFILE_FROM:
            frame = head, records, *form.tail
        else:
            data = records.read()
            if len(data) != size:
                return None
            frame = (b"".join((head, data, *form.tail)),)
    except (KafkaError, OSError):
        return None
    if session is not None:
        _note_sent(session, key, found, request)
        session.begin(node.wall_ms())
    return frame


def _is_alone(session: FetchSession, key: FetchPartitionKey, context: RequestContext, isolation: int) -> bool:
    """Return whether a partition is in a session, and no other has anything to read or other offsets."""
    if key not in session.partitions:
        return False
    if len(session.partitions) == 1:
        return True
    if context.access is not None:
        return False
    partitions = context.node.replica_manager.partitions
    bound = _ISOLATIONS[isolation]
    for other_key, other in session.partitions.items():
        if other_key == key:
            continue
        partition = None if other.topic is None else partitions.get((other.topic, other.index))
        if partition is None or other.topic_id not in (ZERO_UUID, partition.topic_id):
            return False
        log = partition.log
        if (
            other.current_leader_epoch not in (-1, partition.leader_epoch)
            or log.high_watermark != other.sent_high_watermark
            or log.log_start_offset != other.sent_log_start_offset
            # Something to read, or a position past the end of the log.
            or not partition.limit(bound) <= other.fetch_offset <= log.log_end_offset
        ):
            return False
    return True


def _note_sent(session: FetchSession, key: FetchPartitionKey, found: LogRead, request: ShortFetch) -> None:
    """Take over into a session what a request says of its partition, and what the response does."""
    partition = session.partitions[key]
    partition.current_leader_epoch, partition.fetch_offset = request[2:4]
    partition.max_bytes = request[8]
    partition.last_fetched_epoch = -1  # As `reader` has seen.
    partition.sent_high_watermark = found.high_watermark
    partition.sent_log_start_offset = found.log_start_offset
    if len(session.partitions) > 1:
        session.put_last(key)


def read_plain(buffer: memoryview, start: int, end: int) -> ShortFetch | None:
    """Read a request before the flexible versions; None if it is not of this shape."""
    if start + _PLAIN_HEAD_SIZE > end:
        return None
    head = _read_plain_head(buffer, start)
    replica, wait_ms, min_bytes, max_bytes, isolation, session, session_epoch, topic_count, size = head
    name_start = start + _PLAIN_HEAD_SIZE
    position = name_start + size
    if (
        position + _PLAIN_PARTITION_SIZE != end
        or size < 0
        or replica != -1
        or not 0 <= isolation <= 1
        or (session_epoch <= 0 if session else session_epoch != -1)
        or topic_count != 1
    ):
        return None
    row = _read_plain_partition(buffer, position)
    partition_count, index, epoch, offset, _, partition_max_bytes, forgotten_count, rack_size = row
    if partition_count != 1 or forgotten_count or rack_size:
        return None
    name = buffer[name_start:position].tobytes()
    return (
        name, index, epoch, offset, isolation, wait_ms, min_bytes, max_bytes, partition_max_bytes,
        session, session_epoch, buffer, start, end,
    )  # fmt: skip


def read_flexible_13(buffer: memoryview, start: int, end: int) -> ShortFetch | None:
    """Read a request of versions 13 and 14, which has a replica id; None if it is not of this shape."""
    if start + _FLEXIBLE_13.size != end:
        return None
    replica, *rest = _read_13(buffer, start)
    return _short_flexible(rest, buffer, start, end) if replica == -1 else None


def read_flexible(buffer: memoryview, start: int, end: int) -> ShortFetch | None:
    """Read a request from version 15 on; None if it is not of this shape."""
    if start + _FLEXIBLE_15.size != end:
        return None
    return _short_flexible(_read_15(buffer, start), buffer, start, end)


def _short_flexible(fields: Sequence[Any], buffer: memoryview, start: int, end: int) -> ShortFetch | None:
    (
        wait_ms, min_bytes, max_bytes, isolation, session, session_epoch, topic_count, topic_id,
        partition_count, index, epoch, offset, last_epoch, _, partition_max_bytes, more, tags,
    ) = fields  # fmt: skip
    if (
        not 0 <= isolation <= 1
        or (session_epoch <= 0 if session else session_epoch != -1)
        or topic_count != 2
        or partition_count != 2  # Counts are compact: one more than there are.
        or last_epoch != -1
        or more != _NOTHING_MORE
        or tags
    ):
        return None
    return (
        topic_id, index, epoch, offset, isolation, wait_ms, min_bytes, max_bytes, partition_max_bytes,
        session, session_epoch, buffer, start, end,
    )  # fmt: skip


def _with_name(manager: ReplicaManager, name: bytes, index: int) -> Partition | None:
    return manager.partitions.get((name.decode(errors="replace"), index))


def _with_id(manager: ReplicaManager, topic_id: bytes, index: int) -> Partition | None:
    name = manager.topic_name(topic_id)
    partition = None if name is None else manager.partitions.get((name, index))
    return partition if partition is not None and partition.topic_id == topic_id else None


def _plain_head(
    correlation_id: int, session_id: int, name: bytes, index: int, found: LogRead, size: int
) -> bytes:
    """Return a frame up to its records, which have `size` bytes."""
    pack, head_size = _plain_frame(len(name))
    return pack(
        head_size + size, correlation_id, 0, 0, session_id, 1, len(name), name, 1, index, 0,
        found.high_watermark, found.last_stable_offset, found.log_start_offset,
        -1 if found.aborted is None else 0, -1, size,
    )  # fmt: skip


@cache
def _plain_frame(name_size: int) -> tuple[Callable[..., bytes], int]:
    layout = Struct(f">iiihiih{name_size}siihqqqiii")
    return layout.pack, layout.size - 4


def _flexible_head(
    correlation_id: int, session_id: int, topic_id: bytes, index: int, found: LogRead, size: int
) -> bytes:
    """Return a frame up to its records, which have `size` bytes."""
    length = encode_unsigned_varint(size + 1)
    whole = _FLEXIBLE_FRAME_SIZE + len(length) + size + len(_NO_TAGS)
    head = _pack_flexible(
        whole, correlation_id, 0, 0, session_id, 2, topic_id, 2, index, 0, found.high_watermark,
        found.last_stable_offset, found.log_start_offset, 0 if found.aborted is None else 1, -1,
    )  # fmt: skip
    return head + length


class _Form(NamedTuple):
    """How a topic is named and a frame looks: with names and without tags, or with ids and tags."""

    find: Callable[[ReplicaManager, bytes, int], Partition | None]
    head: Callable[[int, int, bytes, int, LogRead, int], bytes]
    tail: tuple[bytes, ...]


_PLAIN = _Form(_with_name, _plain_head, ())
_FLEXIBLE = _Form(_with_id, _flexible_head, (_NO_TAGS,))
