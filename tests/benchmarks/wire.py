"""Raw frames: made once, sent as they are, answered by frames of a known size.

The loops here look at nothing but error codes, so what they measure is the broker and the kernel. Produce
goes in version 7 and fetch in version 11, the last ones without compact sizes: every peer speaks them.
"""

from __future__ import annotations

import select
import time
from random import Random
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

PRODUCE_VERSION = 7
FETCH_VERSION = 11
DELETE_TOPICS_VERSION = 4
METADATA_VERSION = 4
TIMEOUT_MS = 30_000
LEADER_TIMEOUT_SECONDS = 20.0
BATCH_OVERHEAD = 61
RECORD_OVERHEAD = 8
"""About what a record takes beside its value."""

_ERROR = Struct(">h")
_OFFSET = Struct(">q")
_SIZE = Struct(">i")


class BenchmarkFailed(Exception):
    """A peer answered with an error, or not at all."""


def payloads(size: int, count: int = 64) -> list[bytes]:
    """Return different values of words, which compress about as log lines do."""
    random = Random(size)
    words = [
        bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(2000)
    ]
    return [b" ".join(random.choices(words, k=size // 3))[:size].ljust(size, b".") for _ in range(count)]


def batch_of(size_bytes: int, record_bytes: int) -> tuple[bytes, int]:
    """Return an uncompressed batch of about this size, and how many records are in it."""
    builder = RecordBatchBuilder()
    values = payloads(record_bytes)
    now_ms = time.time_ns() // 1_000_000
    count = max(1, (size_bytes - BATCH_OVERHEAD) // (record_bytes + RECORD_OVERHEAD))
    for number in range(count):
        builder.append(now_ms, None, values[number % len(values)])
    return bytes(builder.build()), count


def make_topic(client: RawClient, topic: str) -> None:
    """Have a topic created by asking for it, and wait for its leader."""
    deadline = time.monotonic() + LEADER_TIMEOUT_SECONDS
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    while time.monotonic() < deadline:
        found = client.ask(request, METADATA_VERSION).topics[0]
        if found.error_code == ErrorCode.NONE and found.partitions[0].error_code == ErrorCode.NONE:
            return
        time.sleep(0.02)
    raise BenchmarkFailed(f"{topic} has no leader: error {found.error_code}")


def drop_topic(client: RawClient, topic: str) -> None:
    """Have a topic deleted, for all rounds together are more than memory holds."""
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    code = client.ask(request, DELETE_TOPICS_VERSION).responses[0].error_code
    if code != ErrorCode.NONE:
        raise BenchmarkFailed(f"{topic} cannot be deleted: error {code}")


def produce_request(topic: str, batch: bytes, *, acks: int = 1) -> ProduceRequest:
    """Return a produce request for partition 0."""
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(
        acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce_frame(topic: str, batch: bytes, *, acks: int = 1) -> bytes:
    """Return the frame of a produce request for partition 0."""
    return request_frame(produce_request(topic, batch, acks=acks), PRODUCE_VERSION)


def fetch_request(topic: str, offset: int, max_bytes: int, *, max_wait_ms: int = 500) -> FetchRequest:
    """Return a fetch request for partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=2 * max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def fetch_frame(topic: str, offset: int, max_bytes: int, *, max_wait_ms: int = 500) -> bytearray:
    """Return the frame of a fetch request for partition 0; `set_fetch_offset` changes where it begins."""
    return bytearray(
        request_frame(fetch_request(topic, offset, max_bytes, max_wait_ms=max_wait_ms), FETCH_VERSION)
    )


def set_fetch_offset(frame: bytearray, offset: int) -> None:
    """Let a fetch request begin elsewhere; behind the offset come 8 + 4 + 4 + 2 bytes."""
    _OFFSET.pack_into(frame, len(frame) - 18 - _OFFSET.size, offset)


class Producing:
    """A connection that sends one produce frame again and again."""

    def __init__(self, client: RawClient, topic: str, batch: bytes) -> None:
        self.socket = client.socket
        self.frame = produce_frame(topic, batch)
        self._error_at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._buffer = memoryview(bytearray(64 * 1024))
        deadline = time.monotonic() + LEADER_TIMEOUT_SECONDS
        # A broker may tell of a leader before that knows it is one.
        while self._first() == ErrorCode.NOT_LEADER_OR_FOLLOWER and time.monotonic() < deadline:
            time.sleep(0.02)
        self._check(self.answer_bytes)

    def _first(self) -> int:
        """Send the request, learn how large its answer is, and return the error code."""
        self.socket.sendall(self.frame)
        self.answer_bytes = 4 + _SIZE.unpack(self._receive(4))[0]
        self._receive(self.answer_bytes - 4, 4)
        return int(_ERROR.unpack_from(self._buffer, self._error_at)[0])

    def _receive(self, count: int, start: int = 0) -> memoryview:
        end = start + count
        have = start
        while have < end:
            have += _got(self.socket.recv_into(self._buffer[have:end]))
        return self._buffer[start:end]

    def _check(self, size: int) -> None:
        for at in range(self._error_at, size, self.answer_bytes):
            if code := _ERROR.unpack_from(self._buffer, at)[0]:
                raise BenchmarkFailed(f"produce answered with error {code}")

    def one(self) -> float:
        """Send one request and wait for its answer; return the seconds that took."""
        started = time.perf_counter()
        self.socket.sendall(self.frame)
        self._receive(self.answer_bytes)
        taken = time.perf_counter() - started
        self._check(self.answer_bytes)
        return taken

    def stream(self, count: int, in_flight: int) -> float:
        """Send `count` requests, so many of them unanswered at most; return the seconds that took."""
        started = time.perf_counter()
        sent = received = have = 0
        while received < count:
            while sent < count and sent - received < in_flight:
                self.socket.sendall(self.frame)
                sent += 1
            have += _got(self.socket.recv_into(self._buffer[have:]))
            whole = have // self.answer_bytes
            self._check(whole * self.answer_bytes)
            received += whole
            rest = have - whole * self.answer_bytes
            self._buffer[:rest] = bytes(self._buffer[have - rest : have])
            have = rest
        return time.perf_counter() - started

    def answered(self) -> int:
        """Take in what has come; return how many requests that answers. Answers do not come in halves."""
        have = _got(self.socket.recv_into(self._buffer))
        while have % self.answer_bytes:
            have += _got(self.socket.recv_into(self._buffer[have:]))
        self._check(have)
        return have // self.answer_bytes


def together(connections: Sequence[Producing], in_flight: int, seconds: float) -> float:
    """Keep so many requests unanswered on every connection; return the answers per second."""
    poll = select.epoll()
    by_descriptor = {each.socket.fileno(): each for each in connections}
    for descriptor, each in by_descriptor.items():
        poll.register(descriptor, select.EPOLLIN)
        each.socket.sendall(each.frame * in_flight)
    started = time.perf_counter()
    answered = 0
    while (taken := time.perf_counter() - started) < seconds:
        for descriptor, _ in poll.poll():
            each = by_descriptor[descriptor]
            count = each.answered()
            each.socket.sendall(each.frame * count)
            answered += count
    for each in connections:
        left = in_flight
        while left:
            left -= each.answered()
    poll.close()
    return answered / taken


class Fetching:
    """A connection that reads a topic of equal batches from its beginning, a request at a time."""

    def __init__(
        self, client: RawClient, topic: str, *, batch_bytes: int, batch_records: int, max_bytes: int
    ) -> None:
        self.socket = client.socket
        self._frame = fetch_frame(topic, 0, max_bytes)
        self._batch_bytes = batch_bytes
        self._batch_records = batch_records
        self._error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._records_at = self._error_at + 2 + 8 + 8 + 8 + 4 + 4 + 4
        self._buffer = memoryview(bytearray(self._records_at + max(max_bytes, batch_bytes)))

    def read(self, batches: int) -> float:
        """Read so many batches from the beginning; return the seconds that took."""
        buffer = self._buffer
        started = time.perf_counter()
        seen = 0
        while seen < batches:
            set_fetch_offset(self._frame, seen * self._batch_records)
            self.socket.sendall(self._frame)
            have, size = 0, self._records_at
            while have < size:
                have += _got(self.socket.recv_into(buffer[have:]))
                if have >= 4:
                    size = 4 + _SIZE.unpack_from(buffer)[0]
            code = _ERROR.unpack_from(buffer, self._error_at)[0]
            got = (size - self._records_at) // self._batch_bytes
            if code or not got:
                raise BenchmarkFailed(f"fetch answered with error {code} and {got} batches")
            seen += got
        return time.perf_counter() - started


def send_size(sock: socket.socket, kind: bytes, size: int) -> None:
    """Ask the drain of `drain.py` to send (b"S") or to take (b"R") so many bytes."""
    sock.sendall(kind + _OFFSET.pack(size))


def _got(count: int) -> int:
    if not count:
        raise BenchmarkFailed("the connection was closed")
    return count
