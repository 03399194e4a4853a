"""Hostile bytes: whatever a client sends costs it its own connection and nothing else.

A broker of its own is struck with requests of every API and version: cut, flipped, stretched and lying about
their lengths; with other protocols; and with frames that are all structure. After each strike the next client
is served, nothing was written unless an answer says so, nothing failed unexpectedly, and memory stayed below
`PEAK_BYTES`.

`--hypothesis-profile=thorough` runs fifty times as long.
"""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kcli.broker.network.apis import APIS
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest
from kcli.protocol.messages.create_topics import CreateTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.schema.declaration import MAX_REQUEST_ELEMENTS, codec, message_info
from tests.support.aimed_requests import Targets, aimed
from tests.support.arbitrary import instances
from tests.support.besieged_broker import BesiegedBroker, sent_requests
from tests.support.hostile_frames import CORRELATION_ID, damaged, header, length_fields, sized, smallest
from tests.support.hostile_records import produce_request
from tests.support.kcli_broker import KcliBroker
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.network.apis import Api

pytestmark = pytest.mark.interop

PEAK_BYTES = 256 * 1024 * 1024
ANSWER_SECONDS = 60.0
MANY_PARTITIONS = 10
STUFFED_BYTES = 8 * 1024 * 1024
EXAMPLES = max(1, settings().max_examples // 12)

VERSIONS = [(api, version) for api in APIS for version in range(api.min_version, api.max_version + 1)]
EDGE_VERSIONS = [(api, version) for api in APIS for version in sorted({api.min_version, api.max_version})]

edge_versions = pytest.mark.parametrize(
    ("api", "version"), EDGE_VERSIONS, ids=[f"{api.name}-{version}" for api, version in EDGE_VERSIONS]
)
every_version = pytest.mark.parametrize(
    ("api", "version"), VERSIONS, ids=[f"{api.name}-{version}" for api, version in VERSIONS]
)


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BesiegedBroker]:
    """A broker that creates no topics by itself: with it, a name that was hit by chance would be a write."""
    # One partition of offsets, as every directory is looked into after every strike.
    settings = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
    broker = KcliBroker(tmp_path_factory.mktemp("besieged"), settings=settings).start()
    besieged = BesiegedBroker(broker, peak_bytes=PEAK_BYTES, answer_seconds=ANSWER_SECONDS)
    yield besieged
    besieged.close()
    assert broker.stop() == 0


@pytest.fixture(scope="module")
def targets(besieged: BesiegedBroker) -> Targets:
    """Topics to aim at: some to read, one to change."""
    return Targets(
        kept={name: besieged.create_topic(name, 2) for name in ("kept", "also-kept")},
        victims={"victim": besieged.create_topic("victim", 2)},
    )


@pytest.fixture(autouse=True)
def unharmed(besieged: BesiegedBroker) -> Iterator[None]:
    """After each test: no traceback in the broker's log, and memory below the bound."""
    yield
    besieged.check_log()
    besieged.check_memory()


@every_version
def test_damaged_requests(besieged: BesiegedBroker, targets: Targets, api: Api, version: int) -> None:
    @settings(
        max_examples=EXAMPLES,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(request=instances(api.request, version), seed=st.integers(0, 2**32))
    def strike(request: Any, seed: int) -> None:
        random = Random(seed)
        frame = request_frame(aimed(request, version, random, targets), version, CORRELATION_ID)
        for stream in (frame, *damaged(frame, random)):
            if not asks_for_partitions(stream):
                besieged.attack(stream)

    besieged.create_topic("victim", 2)
    strike()
    besieged.delete_topics_but({*targets.kept, *targets.victims})


def asks_for_partitions(stream: bytes) -> bool:
    """Whether damage made a request for many partitions, which would only be slow."""
    for request in sent_requests(stream):
        if isinstance(body := request.body(), CreateTopicsRequest):
            return any(MANY_PARTITIONS < topic.num_partitions <= 10_000 for topic in body.topics)
        if isinstance(body, CreatePartitionsRequest):
            return any(MANY_PARTITIONS < topic.count <= 10_010 for topic in body.topics)
    return False


@every_version
def test_lengths_that_lie(besieged: BesiegedBroker, api: Api, version: int) -> None:
    start = header(api.request, version)
    for field in length_fields(api.request, version):
        for body in field.lies():
            besieged.attack(sized(start + body))


@edge_versions
def test_arrays_of_millions(besieged: BesiegedBroker, api: Api, version: int) -> None:
    """An array as long as the frame allows, of elements that take far more memory than bytes."""
    start = header(api.request, version)
    for field in length_fields(api.request, version):
        if field.element:
            for count in (MAX_REQUEST_ELEMENTS - 10, STUFFED_BYTES // len(field.element)):
                besieged.attack(sized(start + field.stuffed(count)))


def test_a_tag_section_of_millions(besieged: BesiegedBroker) -> None:
    for api in APIS:
        if message_info(api.request).is_flexible(api.max_version):
            body = codec(api.request, api.max_version).encode(smallest(api.request, api.max_version))
            tags = b"\xff\xff\xff\x07" + b"\x7f\x00" * (STUFFED_BYTES // 2)
            start = header(api.request, api.max_version)
            besieged.attack(sized(start + body[:-1] + tags))
            besieged.attack(sized(start[:-1] + tags + body))


@pytest.mark.parametrize("size", [-(2**31), -5, -1, *range(10), 104_857_601, 200_000_000, 2**31 - 1])
def test_sizes_without_a_request(besieged: BesiegedBroker, size: int) -> None:
    for body in (b"", b"\0" * 3, b"\xff" * 9, bytes(70_000)):
        assert besieged.strike(struct.pack(">i", size) + body) == []
        besieged.check()


@pytest.mark.parametrize("size", [-(2**31), -5, -1, *range(10), 104_857_601, 200_000_000, 2**31 - 1])
def test_impossible_sizes_close_the_connection_at_once(besieged: BesiegedBroker, size: int) -> None:
    with RawClient(besieged.bootstrap, timeout=ANSWER_SECONDS) as client:
        client.send(struct.pack(">i", size) + b"\xff" * max(0, min(size, 10)))
        assert client.is_closed()
    besieged.check()


def test_a_frame_that_is_announced_and_never_comes(besieged: BesiegedBroker) -> None:
    before = besieged.broker.process.resident_bytes()
    clients = [RawClient(besieged.bootstrap) for _ in range(200)]
    for client in clients:
        client.send(struct.pack(">i", 104_857_600) + bytes(1000))
    besieged.check()
    assert besieged.broker.process.resident_bytes() - before < 16 * 1024 * 1024
    for client in clients:
        client.close()
    besieged.check()


@pytest.mark.parametrize(
    "greeting",
    [
        bytes.fromhex("16030100c8010000c40303") + bytes(200),
        bytes.fromhex("1603010006010000020303"),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x00\x00\x0cPROXY TCP4 1",
        b"*1\r\n$4\r\nPING\r\n",
        b"\0" * 100_000,
        b"\xff" * 100_000,
    ],
    ids=["tls", "short-tls", "http", "http2", "ssh", "proxy", "redis", "zeros", "ones"],
)
def test_other_protocols_are_hung_up_on(besieged: BesiegedBroker, greeting: bytes) -> None:
    assert besieged.strike(greeting) == []
    besieged.check()


@pytest.mark.parametrize("version", [-1, -32768, 32767])
@pytest.mark.parametrize("key", [-1, -32768, 4, 5, 6, 7, 63, 76, 80, 999, 32767])
def test_unknown_apis(besieged: BesiegedBroker, key: int, version: int) -> None:
    for number in (version, 0):
        frame = sized(struct.pack(">hhih", key, number, CORRELATION_ID, -1) + bytes(20))
        assert besieged.strike(frame) == []
    besieged.check()


def test_unknown_versions(besieged: BesiegedBroker) -> None:
    for api in APIS:
        for version in (-32768, -1, api.max_version + 1, 32767):
            frame = sized(struct.pack(">hhih", api.key, version, CORRELATION_ID, -1) + bytes(20))
            exchange = besieged.strike(frame)
            # KIP-511: a client that knows a newer ApiVersions learns what this broker knows.
            assert [sent.key for sent, _ in exchange] == ([api.key] if api.name == "ApiVersions" else [])
            besieged.check()


@pytest.mark.parametrize(
    ("tags", "is_answered"),
    [
        pytest.param("00", True, id="none"),
        pytest.param("01 05 03 616263", True, id="unknown"),
        pytest.param("01 ffffff0f 00", True, id="unknown-of-a-high-number"),
        pytest.param("01 05 04 616263", False, id="longer-than-the-frame"),
        pytest.param("01 05 ffffffff0f", False, id="of-4-GB"),
        pytest.param("01 05 ffffffffffffffffff01", False, id="of-2-to-the-63"),
        pytest.param("01 80808080808080808080808080 00", False, id="number-without-end"),
        pytest.param("ffffffff0f", False, id="4-billion-of-them"),
        pytest.param("02 05 00", False, id="one-missing"),
        pytest.param("80808080808080808080808080", False, id="count-without-end"),
    ],
)
def test_tagged_fields(besieged: BesiegedBroker, tags: str, is_answered: bool) -> None:
    start, body = header(MetadataRequest, 9), codec(MetadataRequest, 9).encode(MetadataRequest(topics=[]))
    in_body = besieged.strike(sized(start + body[:-1] + bytes.fromhex(tags)))
    assert bool(in_body) is is_answered
    in_header = besieged.strike(sized(start[:-1] + bytes.fromhex(tags) + body))
    # A header of other tags may still leave something that can be read as the body.
    assert in_header or not is_answered
    besieged.check()


def test_what_comes_before_garbage_is_answered(besieged: BesiegedBroker) -> None:
    """Ten good requests in one packet with an impossible size behind them."""
    good = b"".join(request_frame(ApiVersionsRequest(), 0, number) for number in range(10))
    for garbage in (b"\xff" * 50, b"GET / HTTP/1.1\r\n\r\n", sized(b"\xff" * 50)):
        exchange = besieged.strike(good + garbage)
        assert [sent.correlation_id for sent, _ in exchange] == list(range(10))
        besieged.check()


def test_bytes_behind_a_whole_body_are_passed_over(besieged: BesiegedBroker) -> None:
    frame = request_frame(ApiVersionsRequest(), 0)
    ((_, response),) = besieged.strike(sized(frame[4:] + b"more"))
    assert response.error_code == ErrorCode.NONE


def test_text_that_is_not_utf_8(besieged: BesiegedBroker) -> None:
    for text in (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80"):
        for start in (struct.pack(">hhih", 3, 1, 1, len(text)) + text, struct.pack(">hhih", 3, 1, 1, -1)):
            stream = sized(start + struct.pack(">ih", 1, len(text)) + text)
            ((_, response),) = besieged.strike(stream)  # As Kafka, which reads it as U+FFFD.
            assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
            besieged.check()


def test_many_long_client_ids(besieged: BesiegedBroker) -> None:
    """What the broker remembers of clients must not grow with their ids."""
    start = struct.pack(">hhi", 18, 0, 1)
    for number in range(4000):
        client_id = b"%d" % number + b"x" * 32_000
        besieged.strike(sized(start + struct.pack(">h", len(client_id)) + client_id))
    besieged.check()


def test_what_a_client_sends_is_no_line_of_the_log(besieged: BesiegedBroker) -> None:
    for name in ("a\nforged line", "b" * 30_000):
        besieged.strike(request_frame(produce_request(name, b"", acks=0), 9))
    lines = besieged.broker.messages().splitlines()
    assert not any(line.startswith("forged") for line in lines)
    assert all(len(line) < 1000 for line in lines)
