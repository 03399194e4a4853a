"""librdkafka as a C program would use it: the library that confluent-kafka brings, through ctypes.

Whole batches of messages cross from Python in one call, and consumed messages never become Python objects,
so what is measured is the library and the broker, not Python's share of a client. The library's mock cluster
(`mock_cluster.py`) is opened through the same functions.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCER, CONSUMER = 0, 1
COPY = 0x2
LOG_ERRORS = 3
BEGINNING = -2
CALL_MESSAGES = 10_000
FLUSH_TIMEOUT_MS = 60_000
POLL_TIMEOUT_MS = 5_000
_ERROR_BYTES = 512


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_: ClassVar = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    ]


_DELIVERED = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)


def _load() -> ctypes.CDLL:
    """Open the library and declare the functions that take or give pointers."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (c_void_p, []),
        "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
        "rd_kafka_conf_set_dr_msg_cb": (None, [c_void_p, _DELIVERED]),
        "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
        "rd_kafka_destroy": (None, [c_void_p]),
        "rd_kafka_topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
        "rd_kafka_topic_destroy": (None, [c_void_p]),
        "rd_kafka_produce_batch": (c_int, [c_void_p, c_int32, c_int, POINTER(Message), c_int]),
        "rd_kafka_flush": (c_int, [c_void_p, c_int]),
        "rd_kafka_consume_start": (c_int, [c_void_p, c_int32, c_int64]),
        "rd_kafka_consume_callback": (c_int, [c_void_p, c_int32, c_int, c_void_p, c_void_p]),
        "rd_kafka_consume_stop": (c_int, [c_void_p, c_int32]),
        "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
        "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
        "rd_kafka_version_str": (c_char_p, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


class LibrdkafkaError(Exception):
    """The library refused something, or messages were not delivered."""


class Handle:
    """A client instance and one topic of it."""

    def __init__(self, kind: int, config: Mapping[str, object], topic: str = "") -> None:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        conf = lib.rd_kafka_conf_new()
        for name, value in {"log_level": LOG_ERRORS, **config}.items():
            if lib.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), error, _ERROR_BYTES):
                raise LibrdkafkaError(error.value.decode())
        self.failures = 0
        self._delivered = _DELIVERED(self._report)
        if kind == PRODUCER:
            lib.rd_kafka_conf_set_dr_msg_cb(conf, self._delivered)
        self.pointer = lib.rd_kafka_new(kind, conf, error, _ERROR_BYTES)
        if not self.pointer:
            raise LibrdkafkaError(error.value.decode())
        self.topic = lib.rd_kafka_topic_new(self.pointer, topic.encode(), None) if topic else None

    def _report(self, _client: int, _message: object, _opaque: int) -> None:
        self.failures += 1

    def close(self) -> None:
        """Let go of the client."""
        if self.topic:
            lib.rd_kafka_topic_destroy(self.topic)
        lib.rd_kafka_destroy(self.pointer)


class Producer:
    """Sends copies of a few payloads to partition 0 of a topic."""

    def __init__(
        self, bootstrap: str, topic: str, payloads: list[bytes], config: Mapping[str, object]
    ) -> None:
        self._handle = Handle(
            PRODUCER,
            {
                "bootstrap.servers": bootstrap,
                "acks": 1,
                "linger.ms": 5,
                "batch.num.messages": 1_000_000,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": 2_097_151,
                # The callback then counts failures.
                "delivery.report.only.error": "true",
                **config,
            },
            topic,
        )
        self._payloads = [ctypes.create_string_buffer(payload, len(payload)) for payload in payloads]
        self._messages = (Message * CALL_MESSAGES)()
        for number, message in enumerate(self._messages):
            payload = self._payloads[number % len(payloads)]
            message.payload = ctypes.cast(payload, c_void_p)
            message.len = len(payload)

    def send(self, count: int) -> None:
        """Send `count` messages and return when all are acknowledged."""
        left = count
        while left:
            wanted = min(left, CALL_MESSAGES)
            if lib.rd_kafka_produce_batch(self._handle.topic, 0, COPY, self._messages, wanted) != wanted:
                raise LibrdkafkaError("the producer's queue is full")
            left -= wanted
        if lib.rd_kafka_flush(self._handle.pointer, FLUSH_TIMEOUT_MS) or self._handle.failures:
            raise LibrdkafkaError(f"{self._handle.failures} of {count} messages were not delivered")

    def close(self) -> None:
        """Let go of the client."""
        self._handle.close()


def consume(bootstrap: str, topic: str, count: int, config: Mapping[str, object]) -> float:
    """Read `count` messages of partition 0 from its beginning; return the messages per second.

    The clock starts when the first ones are there: finding the leader and the first offset takes the
    library half a second.
    """
    handle = Handle(
        CONSUMER,
        {
            "bootstrap.servers": bootstrap,
            # A full queue would make the library pause for a second.
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_097_151,
            **config,
        },
        topic,
    )
    # The library calls back for every message and counts the calls. A function of its own that only looks
    # at the message's timestamp, and writes its type, makes the shortest callback there is.
    callback = ctypes.cast(lib.rd_kafka_message_timestamp, c_void_p)
    kind = ctypes.byref(c_int())
    lib.rd_kafka_consume_start(handle.topic, 0, BEGINNING)
    try:
        seen = 0
        while seen <= 1:  # One may be the news that the partition is not known yet.
            seen = lib.rd_kafka_consume_callback(handle.topic, 0, POLL_TIMEOUT_MS, callback, kind)
        first, started = seen, time.perf_counter()
        while seen < count:
            got = lib.rd_kafka_consume_callback(handle.topic, 0, POLL_TIMEOUT_MS, callback, kind)
            if got <= 0:
                raise LibrdkafkaError(f"{seen} of {count} messages came")
            seen += got
        return (seen - first) / (time.perf_counter() - started)
    finally:
        lib.rd_kafka_consume_stop(handle.topic, 0)
        handle.close()
