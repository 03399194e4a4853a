"""Fetch responses on the wire without message objects: the rows of all partitions, packed at once.

A message would need eight objects for each partition of every poll. The bytes are the same, and a test
compares both: `kcli.protocol.messages.fetch` has the layout. Records in files stay slices. Rows with a leader
or a diverging epoch are left to the generated codec.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.broker.replication.fetch_data import FetchedPartition
    from kcli.storage.index.transaction_index import AbortedTransaction

THROTTLE_FROM, ABORTED_FROM, LOG_START_FROM, SESSIONS_FROM = 1, 4, 5, 7
PREFERRED_FROM, FLEXIBLE_FROM, TOPIC_IDS_FROM = 11, 12, 13

UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors that are found without a log: the list of aborted transactions is empty then, not null."""

ShortFetch = tuple[bytes, int, int, int, int, int, int, int, int, int, int, memoryview, int, int]
"""A request that lists one partition: topic (name, or id from version 13 on), partition, leader epoch,
offset, isolation level, longest wait, fewest bytes, most bytes in all and of the partition, session (0: none)
and its epoch, then the buffer, start and end of the body.

A tuple, because many clients send nothing else.
"""

_COUNT = Struct(">i").pack
_LENGTH = Struct(">h").pack
_SESSION = Struct(">ihi").pack
"""Throttle time, error, session id."""
_ROW_0 = Struct(">ihq").pack
"""Index, error, high watermark; then the last stable offset, then the log start."""
_ROW_4 = Struct(">ihqq").pack
_ROW_5 = Struct(">ihqqq").pack
_ABORTED = Struct(">qq").pack
_NULL = b"\xff\xff\xff\xff"


def is_plain(rows: Iterable[FetchedPartition], version: int) -> bool:
    """Return whether `encode_rows` can encode these rows."""
    if version < FLEXIBLE_FROM:
        return True
    return all(row.diverging is None and row.current_leader is None for row in rows)


def encode_rows(
    rows: Sequence[FetchedPartition], version: int, *, error_code: int, session_id: int
) -> bytes | list[Any]:
    """Return the response body for plain rows, in parts if record data stays in files."""
    flexible = version >= FLEXIBLE_FROM
    parts: list[Any] = []
    if version >= SESSIONS_FROM:
        parts.append(_SESSION(0, error_code, session_id))
    elif version >= THROTTLE_FROM:
        parts.append(b"\x00\x00\x00\x00")
    topics = _by_topic(rows, version)
    parts.append(encode_unsigned_varint(len(topics) + 1) if flexible else _COUNT(len(topics)))
    in_files = False
    for topic in topics:
        parts.append(_topic_head(topic, version))
        for row in topic:
            records = row.records
            parts.append(_row_head(row, 0 if records is None else len(records), version))
            if records is not None:
                parts.append(records)
                in_files = in_files or type(records) is not bytes
            if flexible:
                parts.append(b"\x00")
        if flexible:
            parts.append(b"\x00")
    if flexible:
        parts.append(b"\x00")
    return parts if in_files else b"".join(parts)


def _by_topic(rows: Sequence[FetchedPartition], version: int) -> list[list[FetchedPartition]]:
    """Return the rows grouped by topic, in their order."""
    topics: list[list[FetchedPartition]] = []
    last: object = None
    for row in rows:
        request = row.request
        topic = request.topic_id if version >= TOPIC_IDS_FROM else request.topic or ""
        if topic != last:
            topics.append([])
            last = topic
        topics[-1].append(row)
    return topics


def _topic_head(topic: list[FetchedPartition], version: int) -> bytes:
    request = topic[0].request
    if version >= TOPIC_IDS_FROM:
        return request.topic_id + encode_unsigned_varint(len(topic) + 1)
    name = (request.topic or "").encode()
    if version >= FLEXIBLE_FROM:
        return encode_unsigned_varint(len(name) + 1) + name + encode_unsigned_varint(len(topic) + 1)
    return _LENGTH(len(name)) + name + _COUNT(len(topic))


def _row_head(row: FetchedPartition, size: int, version: int) -> bytes:
    """Return a row up to its records, which have `size` bytes."""
    index, error_code = row.request.index, row.error_code
    if error_code == ErrorCode.KAFKA_STORAGE_ERROR and version <= LOG_START_FROM:
        error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= LOG_START_FROM:
        head = _ROW_5(index, error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset)
    elif version >= ABORTED_FROM:
        head = _ROW_4(index, error_code, row.high_watermark, row.last_stable_offset)
    else:
        return _ROW_0(index, error_code, row.high_watermark) + _COUNT(size)
    aborted = row.aborted
    if aborted is None and error_code in UNKNOWN:
        aborted = []
    if version < FLEXIBLE_FROM:
        head += _NULL if aborted is None else _COUNT(len(aborted)) + _encode_aborted(aborted, b"")
        if version >= PREFERRED_FROM:
            head += _COUNT(row.preferred_read_replica)
        return head + _COUNT(size)
    head += (
        b"\x00"
        if aborted is None
        else encode_unsigned_varint(len(aborted) + 1) + _encode_aborted(aborted, b"\x00")
    )
    return head + _COUNT(row.preferred_read_replica) + encode_unsigned_varint(size + 1)


def _encode_aborted(aborted: list[AbortedTransaction], tags: bytes) -> bytes:
    return b"".join([_ABORTED(each.producer_id, each.first_offset) + tags for each in aborted])
