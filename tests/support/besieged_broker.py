"""BesiegedBroker: a kcli broker that hostile clients attack, and a witness of what must not happen to it.

What an attack may cost is one connection. `strike` sends bytes and reads what comes back, in bounded time;
`check` makes sure that the next client is served, that nothing was written without an answer that says so,
that no handler failed unexpectedly and that memory stayed below its bound.

What is written for groups and transactions is left out: their coordinators write by themselves, too, when a
session or a transaction times out.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response, parse_request_header
from kcli.protocol.messages.alter_configs import AlterConfigsRequest
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kcli.protocol.messages.delete_records import DeleteRecordsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kcli.protocol.schema.declaration import DecodeError, codec, message_info
from kcli.protocol.schema.fields import fields_of
from kcli.protocol.topics import INTERNAL_TOPICS
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.kcli_broker import KcliBroker

MAX_REQUEST_BYTES = 104_857_600
LONGEST_WAIT_MS = 100
"""A fetch that asks to wait longer is sent, but not waited for."""

_SIZE = struct.Struct(">i")
_WRITERS = {
    message_info(request).key
    for request in (
        ProduceRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        CreatePartitionsRequest,
        DeleteRecordsRequest,
        AlterConfigsRequest,
        IncrementalAlterConfigsRequest,
        InitProducerIdRequest,
        WriteTxnMarkersRequest,
    )
}
_GROUP, _TRANSACTION = 0, 1
_PRODUCE = message_info(ProduceRequest).key
_FETCH = message_info(FetchRequest).key
_REBALANCE = {message_info(JoinGroupRequest).key, message_info(SyncGroupRequest).key}
_API_VERSIONS = message_info(ApiVersionsRequest).key


@dataclass(frozen=True, slots=True)
class Sent:
    """One whole request in a stream of bytes, as far as its header can be read."""

    key: int
    version: int
    correlation_id: int
    frame: bytes

    def body(self) -> Any:
        """The request; None if it cannot be decoded."""
        request_class = _REQUESTS.get(self.key)
        try:
            return codec(request_class, self.version).decode(self.frame, parse_request_header(self.frame)[1])[
                0
            ]
        except (DecodeError, ValueError, TypeError, AttributeError):
            return None


def _request_classes() -> dict[int, type[Any]]:
    from kcli.broker.network.apis import APIS

    return {api.key: api.request for api in APIS}


_REQUESTS = _request_classes()


def sent_requests(stream: bytes) -> Iterator[Sent]:
    """The whole requests at the start of a stream, up to the first impossible size."""
    position = 0
    while position + _SIZE.size <= len(stream):
        (size,) = _SIZE.unpack_from(stream, position)
        start = position + _SIZE.size
        if not 8 <= size <= MAX_REQUEST_BYTES or start + size > len(stream):
            return
        frame = stream[start : start + size]
        yield Sent(*struct.unpack_from(">hhi", frame), frame)
        position = start + size


class BesiegedBroker:
    """Wraps a started broker. `settle` takes the present state as the one that must not change."""

    def __init__(self, broker: KcliBroker, *, peak_bytes: int, answer_seconds: float) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self.peak_bytes = peak_bytes
        self.answer_seconds = answer_seconds
        self._witness = RawClient(broker.bootstrap)
        self._log_read = 0
        self._files: dict[str, int] = {}
        for kind in (_GROUP, _TRANSACTION):
            request = FindCoordinatorRequest(key="any", key_type=kind)
            assert self.ask(request, 1).error_code == ErrorCode.NONE
        self.settle()

    def close(self) -> None:
        """Let the witness go; the broker is its owner's."""
        self._witness.close()

    def ask(self, request: object, version: int) -> Any:
        """Send a well-meant request on the witness's connection."""
        return self._witness.ask(request, version)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> bytes:
        """Create a topic, unless there is one; its id."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        (result,) = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
        assert result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), result
        self.settle()
        return bytes(result.topic_id)

    def delete_topics_but(self, kept: set[str]) -> None:
        """Delete what attacks created."""
        topics = self.ask(MetadataRequest(topics=None), 9).topics
        names = [topic.name for topic in topics if topic.name not in kept and not topic.is_internal]
        if names:
            self.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=5000), 5)
            self.settle()

    # --- attacks ---------------------------------------------------------------------------------

    def strike(self, stream: bytes) -> list[tuple[Sent, Any]]:
        """Send bytes on a connection of their own and end it; what was answered, decoded.

        Every answer must belong to a request of the stream, in order. The broker has to answer or close
        within the bound; only a fetch that asks for a long wait is left alone, and what waits for members.
        """
        requests = list(sent_requests(stream))
        with RawClient(self.bootstrap, timeout=self.answer_seconds) as client:
            client.offer(stream)
            if any(_waits(request) for request in requests):
                return []
            frames = client.receive_all()
        return list(_match(requests, frames))

    def attack(self, stream: bytes) -> dict[str, tuple[int, int]]:
        """Strike, then check; what files grew, which they only may if an answer says so."""
        exchange = self.strike(stream)
        return self.check(may_write=any(_says_written(sent, response) for sent, response in exchange))

    # --- what must hold --------------------------------------------------------------------------

    def settle(self) -> None:
        """Take the files as they are now for what must stay."""
        self._files = self._sizes()

    def check(self, *, may_write: bool = False) -> dict[str, tuple[int, int]]:
        """Serve the next client, and compare the files; which log files grew, from and to what size."""
        assert self.ask(ApiVersionsRequest(), 0).error_code == 0
        now = self._sizes()
        before, self._files = self._files, now
        if now == before:
            return {}
        changed = {path for path in {*now, *before} if now.get(path) != before.get(path)}
        assert may_write, f"written without an answer that says so: {sorted(changed)}"
        return {path: (before.get(path, 0), now[path]) for path in changed if path in now}

    def check_log(self) -> None:
        """No handler may have failed in a way that it did not foresee."""
        text = self.broker.messages()
        news, self._log_read = text[self._log_read :], len(text)
        assert "Traceback" not in news, news[-5000:]

    def check_memory(self) -> int:
        """The highest resident memory so far, which must lie below the bound."""
        peak = self.broker.process.peak_resident_bytes()
        assert peak < self.peak_bytes, f"{peak >> 20} MB"
        return peak

    def reset_peak(self) -> None:
        """Forget the highest resident memory so far."""
        Path(f"/proc/{self.broker.process.pid}/clear_refs").write_text("5")

    def _sizes(self) -> dict[str, int]:
        """Directories and log files by path; the size of files, 0 for directories."""
        sizes: dict[str, int] = {}
        with os.scandir(self.broker.node_directory) as entries:
            directories = [entry.path for entry in entries if entry.is_dir()]
        for directory in directories:
            name = os.path.basename(directory)
            if name.endswith("-delete") or name.rpartition("-")[0] in INTERNAL_TOPICS:
                continue
            sizes[directory] = 0
            with os.scandir(directory) as entries:
                sizes.update(
                    (entry.path, entry.stat().st_size) for entry in entries if entry.name.endswith(".log")
                )
        return sizes


def _waits(request: Sent) -> bool:
    if request.key in _REBALANCE:
        return request.body() is not None
    if request.key != _FETCH:
        return False
    body = request.body()
    return body is not None and body.max_wait_ms > LONGEST_WAIT_MS


def _match(requests: list[Sent], frames: list[bytes]) -> Iterator[tuple[Sent, Any]]:
    """Pair answers with their requests. Only a Produce may have none: that with acks=0."""
    rest = iter(requests)
    for frame in frames:
        (correlation_id,) = _SIZE.unpack_from(frame)
        for request in rest:
            if request.correlation_id == correlation_id:
                yield request, _decoded(request, frame)
                break
            assert request.key == _PRODUCE, f"{request} was passed over"
            if request.body() is not None:
                yield request, None
        else:
            raise AssertionError(f"nobody asked for {frame.hex()}")
    for request in rest:
        if request.key == _PRODUCE and request.body() is not None:
            yield request, None


def _decoded(request: Sent, frame: bytes) -> Any:
    if request.key == _API_VERSIONS and not 0 <= request.version <= 4:
        response: ApiVersionsResponse = decode_response(_API_VERSIONS, 0, frame)[1]
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        return response
    return decode_response(request.key, request.version, frame)[1]


def _says_written(request: Sent, response: Any) -> bool:
    """Whether an answer reports success of something that writes; Produce with acks=0 has no answer."""
    if request.key not in _WRITERS:
        return False
    return response is None or ErrorCode.NONE in _error_codes(response)


def _error_codes(value: Any) -> set[int]:
    codes: set[int] = set()
    for field in fields_of(type(value)):
        part = getattr(value, field.name)
        if field.name == "error_code":
            codes.add(part)
        elif field.struct is not None:
            for each in part if isinstance(part, list) else [part]:
                if each is not None:
                    codes |= _error_codes(each)
    return codes
