"""The short path of a fetch of one partition: what it reads, and the same responses as the handler."""

from __future__ import annotations

import errno
import os
import struct
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.handlers.fetch import short_path
from kcli.broker.handlers.fetch.short_path import (
    PLAIN_VERSION,
    read_flexible,
    read_flexible_13,
    read_plain,
    reader,
)
from kcli.broker.handlers.fetch.short_path import read as read_short
from kcli.broker.handlers.fetch.wire import TOPIC_IDS_FROM
from kcli.broker.network.apis import APIS, Api
from kcli.broker.network.outbox import SENDFILE_FROM
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.replication.fetch_data import FetchPartition as FetchPartitionOfSession
from kcli.broker.replication.fetch_session import FetchSessionCache
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.schema.declaration import codec
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.file_records import FileSlice
from kcli.storage.producers.producer_state import AppendOrigin
from tests.broker.records import batch, fill
from tests.broker.single_node import LISTENER, START_MS, Node, connected, running_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSIONS = [PLAIN_VERSION, *range(TOPIC_IDS_FROM, 19)]
BEFORE = b"\x00" * 7
ID = bytes(range(16))

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)


def request_of(name: str = "t", topic_id: bytes = ID, **fields: Any) -> FetchRequest:
    """Return a request of the short shape, but for `fields` of it, its topic or its partition."""
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    row |= {key: fields.pop(key) for key in list(fields) if key in FetchPartition.__slots__}
    topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[FetchPartition(**row)])
    whole: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "topics": [topic]}
    return FetchRequest(**whole | fields)


def read(data: bytes, version: int) -> Any:
    """Return what the short reader makes of a body, None for another shape."""
    buffer = memoryview(BEFORE + data)
    if version >= TOPIC_IDS_FROM:
        reading = read_flexible if version >= 15 else read_flexible_13
    else:
        reading = read_plain
    found = reading(buffer, len(BEFORE), len(BEFORE) + len(data))
    return None if found is None else found[:-3]


@given(
    version=st.sampled_from(VERSIONS),
    name=st.text("abc._-é", max_size=249),
    topic_id=st.binary(min_size=16, max_size=16),
    isolation=st.sampled_from([0, 1]),
    numbers=st.tuples(ints, ints, ints, ints, ints, ints),
    offsets=st.tuples(longs, longs),
    session=st.one_of(st.just((0, -1)), st.tuples(ints.filter(bool), ints.filter(lambda epoch: epoch > 0))),
)
def test_a_fetch_of_one_partition_is_read(
    version: int,
    name: str,
    topic_id: bytes,
    isolation: int,
    numbers: tuple[int, ...],
    offsets: tuple[int, int],
    session: tuple[int, int],
) -> None:
    index, epoch, wait_ms, min_bytes, max_bytes, partition_max_bytes = numbers
    request = request_of(
        name,
        topic_id,
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offsets[0],
        log_start_offset=offsets[1],
        partition_max_bytes=partition_max_bytes,
        isolation_level=isolation,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
    )
    topic = topic_id if version >= TOPIC_IDS_FROM else name.encode()
    limits = wait_ms, min_bytes, max_bytes, partition_max_bytes
    expected = topic, index, epoch, offsets[0], isolation, *limits, *session
    assert read(codec(FetchRequest, version).encode(request), version) == expected


@given(
    version=st.sampled_from(VERSIONS),
    changes=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4),
    cut=st.sampled_from([0, 0, 0, 1, 5, 40]),
    more=st.sampled_from([b"", b"", b"", b"\x00"]),
)
def test_what_is_read_is_what_the_request_says(
    version: int, changes: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    encoded = bytearray(codec(FetchRequest, version).encode(request_of("topic", partition=3)))
    for position, value in changes:
        encoded[position % len(encoded)] = value
    check_reading(bytes(encoded[: len(encoded) - cut]) + more, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_byte_is_overlooked(version: int) -> None:
    encoded = codec(FetchRequest, version).encode(request_of("topic", partition=3))
    for position, value in product(range(len(encoded)), range(256)):
        check_reading(encoded[:position] + bytes([value]) + encoded[position + 1 :], version)
    for size in range(len(encoded)):
        assert read(encoded[:size], version) is None
    assert read(encoded + b"\x00", version) is None


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_tags_of_the_header_change_nothing(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        ids = await fill_topics(node, client)
        body = codec(FetchRequest, version).encode(request_of(topic_id=ids["small"], partition=1))
        head = struct.pack(">hhih", 1, version, 7, -1)
        answers = []
        for tags in (b"\x00", b"\x01\x05\x02ab"):
            buffer = memoryview(bytearray(head + tags + body))
            context = RequestContext(node, LISTENER, "somewhere")  # type: ignore[arg-type]
            answers.append(RequestEngine(APIS).feed(context, buffer, 0, len(buffer)))
        assert isinstance(answers[0], tuple)
        assert answers[0] == answers[1]


def check_reading(data: bytes, version: int) -> None:
    """Fail unless a body is left to the rest, or read as the codec reads it and of the short shape."""
    found = read(data, version)
    if found is None:
        return
    request, end = codec(FetchRequest, version).decode(memoryview(data), 0, len(data))
    assert end == len(data)
    ((topic,), ((row,),)) = request.topics, [topic.partitions for topic in request.topics]
    named = found[0] if version >= TOPIC_IDS_FROM else found[0].decode(errors="replace")
    assert (named, *found[1:]) == (
        topic.topic_id if version >= TOPIC_IDS_FROM else topic.topic,
        row.partition,
        row.current_leader_epoch,
        row.fetch_offset,
        request.isolation_level,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        row.partition_max_bytes,
        request.session_id,
        request.session_epoch,
    )
    assert (request.replica_id, request.replica_state.replica_id, row.last_fetched_epoch) == (-1, -1, -1)
    assert request.session_epoch > 0 if request.session_id else request.session_epoch == -1
    assert (request.rack_id, request.forgotten_topics_data) == ("", [])


OTHER_SHAPES = {
    "a session to open": {"session_epoch": 0},
    "an epoch without a session": {"session_epoch": 3},
    "a session to replace": {"session_id": 5, "session_epoch": 0},
    "a session to close": {"session_id": 5},
    "an unknown isolation": {"isolation_level": 2},
    "a negative isolation": {"isolation_level": -1},
    "a rack": {"rack_id": "r"},
    "no topic": {"topics": []},
    "two topics": {"topics": request_of().topics * 2},
    "no partition": {"topics": [FetchTopic(topic="t", topic_id=ID, partitions=[])]},
    "two partitions": {
        "topics": [FetchTopic(topic="t", topic_id=ID, partitions=request_of().topics[0].partitions * 2)]
    },
    "a partition to forget": {
        "forgotten_topics_data": [ForgottenTopic(topic="t", topic_id=ID, partitions=[0])]
    },
}
FLEXIBLE_SHAPES = {"an epoch fetched last": {"last_fetched_epoch": 0}, "a cluster id": {"cluster_id": "c"}}


@pytest.mark.parametrize("version", VERSIONS)
def test_other_shapes_are_left_to_the_rest(version: int) -> None:
    shapes = dict(OTHER_SHAPES)
    if version >= TOPIC_IDS_FROM:
        shapes |= FLEXIBLE_SHAPES
    shapes["a follower"] = (
        {"replica_state": ReplicaState(replica_id=2, replica_epoch=1)} if version >= 15 else {"replica_id": 2}
    )
    assert read(codec(FetchRequest, version).encode(request_of()), version) is not None
    for name, fields in shapes.items():
        assert read(codec(FetchRequest, version).encode(request_of(**fields)), version) is None, name


# --- answers -------------------------------------------------------------------------------------


def aborted_transaction() -> tuple[bytearray, bytearray]:
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = EndTxnMarker(ControlRecordType.ABORT, 0)
    return bytearray(records), bytearray(
        end_txn_batch(marker, timestamp=START_MS, producer_id=7, producer_epoch=0)
    )


async def fill_topics(node: Node, client: Any) -> dict[str, bytes]:
    """Make topics of small and large records, of none and of transactions, and some whose ends differ.

    Return their ids.
    """
    ids = {}
    for name in ("small", "large", "empty", "aborted", "open", "copied", "cut"):
        ids[name] = node.create_topic(name, partitions=2).topic_id
    await fill(client, "small", b"a", b"b", b"c", index=1)
    for _ in range(3):
        await fill(client, "large", b"v" * SENDFILE_FROM, b"w")
    log = node.replica_manager.partition("aborted", 0).log
    records, marker = aborted_transaction()
    log.append_as_leader(records, leader_epoch=0, now_ms=START_MS)
    log.append_as_leader(marker, leader_epoch=0, now_ms=START_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark_to_end()
    fill_with_other_ends(node)
    return ids


def fill_with_other_ends(node: Node) -> None:
    """Write a transaction that goes on, records that followers lack, and some that were deleted since."""
    logs = {name: node.replica_manager.partition(name, 0).log for name in ("open", "copied", "cut")}
    for log in logs.values():
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(bytearray(batch(value)), leader_epoch=0, now_ms=START_MS)
    logs["open"].append_as_leader(aborted_transaction()[0], leader_epoch=0, now_ms=START_MS)
    logs["open"].advance_high_watermark_to_end()
    logs["copied"].advance_high_watermark(2)
    logs["cut"].advance_high_watermark_to_end()
    logs["cut"].delete_records_before(1)


PROPERTIES = {"fetch.max.bytes": str(5 * SENDFILE_FROM // 2)}
"""More than two of the large batches, and less than three."""

REQUESTS: dict[str, dict[str, Any]] = {
    "records": {"name": "small", "partition": 1},
    "of an epoch": {"name": "small", "partition": 1, "current_leader_epoch": 0},
    "committed records": {"name": "small", "partition": 1, "isolation_level": 1},
    "the last": {"name": "small", "partition": 1, "fetch_offset": 2},
    "the end": {"name": "small", "partition": 1, "fetch_offset": 3, "max_wait_ms": 0},
    "past the end": {"name": "small", "partition": 1, "fetch_offset": 4},
    "before the start": {"name": "small", "partition": 1, "fetch_offset": -1},
    "a partition without records": {"name": "small", "max_wait_ms": 0},
    "no such partition": {"name": "small", "partition": 2},
    "an epoch too old": {"name": "small", "partition": 1, "current_leader_epoch": -2},
    "an epoch too new": {"name": "small", "partition": 1, "current_leader_epoch": 9},
    "too few, at once": {"name": "small", "partition": 1, "min_bytes": 1000, "max_wait_ms": 0},
    "too few, in vain": {"name": "small", "partition": 1, "min_bytes": 1000, "max_wait_ms": 1},
    "large records": {"name": "large"},
    "one large record": {"name": "large", "partition_max_bytes": 1},
    "so many bytes in all": {"name": "large", "max_bytes": SENDFILE_FROM + 200},
    "no bytes": {"name": "large", "max_bytes": 0},
    "fewer than no bytes": {"name": "large", "max_bytes": -1},
    "small behind large": {"name": "large", "fetch_offset": 5},
    "an empty topic": {"name": "empty", "max_wait_ms": 0},
    "an aborted transaction": {"name": "aborted", "isolation_level": 1},
    "uncommitted records": {"name": "aborted"},
    "below an open transaction": {"name": "open", "isolation_level": 1},
    "in an open transaction": {"name": "open", "isolation_level": 1, "fetch_offset": 3, "max_wait_ms": 0},
    "uncommitted records of it": {"name": "open", "fetch_offset": 3},
    "what followers have": {"name": "copied"},
    "committed, what followers have": {"name": "copied", "isolation_level": 1},
    "what they lack": {"name": "copied", "fetch_offset": 2, "max_wait_ms": 0},
    "behind deleted records": {"name": "cut", "fetch_offset": 1},
    "deleted records": {"name": "cut"},
    "an unknown topic": {"name": "unknown"},
    "an id of nothing": {"name": "zero"},
}


def without_short_path() -> tuple[Api, ...]:
    """Return the API table without the short path."""
    full = Api("Fetch", "fetch.handler", sends_files=True)
    return tuple(full if api.key == 1 else api for api in APIS)


async def frames(directory: Path, version: int, apis: tuple[Api, ...]) -> dict[str, bytes]:
    """Return the answer to every request, as it travels, without what differs from run to run."""
    async with running_node(directory, PROPERTIES, apis=apis) as node, connected(node) as client:
        ids = await fill_topics(node, client)
        # Before version 16 no answer has it, and other numbers may look like it.
        port = node.port.to_bytes(4, "big") if version >= 16 else b"port"
        found = {}
        for what, fields in REQUESTS.items():
            name = fields["name"]
            topic_id = ids.get(name, ZERO_UUID if name == "zero" else ID)
            await client.send(request_of(topic_id=topic_id, **fields), version)
            frame = await client.receive_frame()
            found[what] = frame[4:].replace(topic_id, name.encode()).replace(port, b"port")
        return found


@pytest.mark.parametrize("version", [*VERSIONS, 10, 12])
async def test_both_ways_answer_the_same(version: int, tmp_path: Path) -> None:
    for name in ("short", "full"):
        os.mkdir(tmp_path / name)
    short = await frames(tmp_path / "short", version, APIS)
    assert short == await frames(tmp_path / "full", version, without_short_path())
    assert len(short["large records"]) > 2 * SENDFILE_FROM > len(short["one large record"]) > SENDFILE_FROM


SHORT = (
    "records",
    "of an epoch",
    "committed records",
    "the last",
    "too few, at once",
    "large records",
    "one large record",
    "so many bytes in all",
    "no bytes",
    "fewer than no bytes",
    "small behind large",
    "uncommitted records",
    "below an open transaction",
    "uncommitted records of it",
    "what followers have",
    "committed, what followers have",
    "behind deleted records",
)


def test_the_broker_has_the_short_path() -> None:
    assert [api.name for api in APIS if api.reader is reader] == ["Fetch"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_the_short_path_answers(version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        ids = await fill_topics(node, client)
        found = {}
        for what, fields in REQUESTS.items():
            answer = by_short_path(node, request_of(topic_id=ids.get(fields["name"], ID), **fields), version)
            if answer is not None:
                found[what] = len(answer)
    assert tuple(found) == SHORT
    large = [what for what, parts in found.items() if parts > 1]
    assert large == [
        "large records",
        "one large record",
        "so many bytes in all",
        "no bytes",
        "fewer than no bytes",
    ]


def by_short_path(node: Node, request: FetchRequest, version: int) -> Any:
    """Return what the short path makes of a request."""
    context = RequestContext(node, LISTENER, "somewhere")  # type: ignore[arg-type]
    context.api_version = version
    body = memoryview(codec(FetchRequest, version).encode(request))
    short, _ = reader(version)(body, 0, len(body))
    return read_short(short, context) if type(short) is tuple else None


async def test_what_cannot_be_read_is_left_to_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        ids = await fill_topics(node, client)
        request = request_of(topic_id=ids["small"], partition=1)
        assert by_short_path(node, request, 16) is not None
        with monkeypatch.context() as patch:
            patch.setattr(FileSlice, "read", fail)
            assert by_short_path(node, request, 16) is None
        log = node.replica_manager.partition("small", 1).log
        os.truncate(log.segments.active.records.path, log.size_bytes - 1)
        assert by_short_path(node, request, 16) is None


def fail(_: FileSlice) -> bytes:
    raise OSError(errno.EIO, "the disk is broken")


async def test_a_name_that_is_none_and_an_id_of_before_are_left_to_the_rest(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        ids = await fill_topics(node, client)
        context = RequestContext(node, LISTENER, "somewhere")  # type: ignore[arg-type]
        context.api_version = PLAIN_VERSION
        body = codec(FetchRequest, PLAIN_VERSION).encode(request_of("small", partition=1))
        buffer = memoryview(body.replace(b"small", b"\xffmall"))
        short, _ = reader(PLAIN_VERSION)(buffer, 0, len(buffer))
        assert type(short) is tuple
        assert read_short(short, context) is None
        node.replica_manager.partition("small", 1).topic_id = ID
        assert by_short_path(node, request_of(topic_id=ids["small"], partition=1), 16) is None


# --- sessions ------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A request of a session: partitions with their offsets, and what happens before it."""

    rows: list[tuple[str, int, int]]
    is_short: bool = False
    before: Callable[[Node], object] | None = None
    fields: dict[str, Any] | None = None


def append(name: str, index: int) -> Callable[[Node], object]:
    def act(node: Node) -> None:
        log = node.replica_manager.partition(name, index).log
        log.append_as_leader(bytearray(batch(b"more")), leader_epoch=0, now_ms=START_MS)
        log.advance_high_watermark_to_end()

    return act


def delete(name: str, index: int) -> Callable[[Node], object]:
    return lambda node: node.replica_manager.partition(name, index).log.delete_records_before(1)


def skip_an_epoch(node: Node) -> None:
    (session,) = node.fetch_sessions._sessions.values()
    session.epoch += 1


def wrap(node: Node) -> None:
    (session,) = node.fetch_sessions._sessions.values()
    session.epoch = LAST_EPOCH


def had_fetched_an_epoch(node: Node) -> None:
    (session,) = node.fetch_sessions._sessions.values()
    for partition in session.partitions.values():
        partition.last_fetched_epoch = 0


SESSION_ID, LAST_EPOCH = 0x5E551017, 2**31 - 1
SMALL, LARGE, EMPTY = ("small", 1), ("large", 0), ("empty", 0)
ONE = [
    Step([(*SMALL, 0)]),
    Step([(*SMALL, 1)], is_short=True),
    Step([(*SMALL, 2)], is_short=True, before=had_fetched_an_epoch),
    Step([(*SMALL, 3)]),
    Step([(*SMALL, 3)], is_short=True, before=append(*SMALL)),
    Step([(*SMALL, 4)]),
    Step([], before=append(*SMALL)),
    Step([(*SMALL, 0)], is_short=True, before=wrap, fields={"isolation_level": 1}),
    Step([(*SMALL, 9)]),
    Step([(*SMALL, 0)], is_short=True),
    Step([(*SMALL, 1)], is_short=True),
    Step([(*SMALL, 0)], before=skip_an_epoch),
]
MANY = [
    Step([(*SMALL, 0), (*LARGE, 0), (*EMPTY, 0)]),
    # The others have something to read, or nothing new.
    Step([(*SMALL, 1)]),
    Step([(*SMALL, 3), (*LARGE, 6)]),
    Step([(*SMALL, 2)], is_short=True),
    Step([(*SMALL, 3)]),
    Step([(*LARGE, 0)], is_short=True, fields={"max_bytes": SENDFILE_FROM}),
    Step([(*LARGE, 1)], before=append(*EMPTY)),
    Step([(*LARGE, 2)]),
    Step([(*EMPTY, 1)]),
    Step([(*LARGE, 3)], is_short=True),
    Step([(*LARGE, 4)], before=delete(*SMALL)),
    Step([(*LARGE, 5)], is_short=True),
    Step([(*SMALL, 0), (*LARGE, 6)]),
    Step([(*SMALL, 2)], is_short=True),
    # A partition that is not in the session yet.
    Step([("aborted", 0, 0)]),
    Step([(*LARGE, 5)]),
    Step([("aborted", 0, 2)]),
    Step([(*LARGE, 5)]),
]


async def play(
    directory: Path, version: int, apis: tuple[Api, ...], steps: list[Step]
) -> list[tuple[bytes, Any]]:
    """Return the answer to each request of a session, and what the session holds after it."""
    async with running_node(directory, PROPERTIES, apis=apis) as node, connected(node) as client:
        node.fetch_sessions = FetchSessionCache(new_id=lambda: SESSION_ID)
        ids = await fill_topics(node, client)
        port = node.port.to_bytes(4, "big") if version >= 16 else b"port"
        session_id = epoch = 0
        found = []
        for step in steps:
            if step.before is not None:
                step.before(node)
            if step.before is wrap:
                epoch = LAST_EPOCH
            topics = [
                FetchTopic(
                    topic=name,
                    topic_id=ids[name],
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=1 << 20,
                            current_leader_epoch=0,
                        )
                    ],
                )
                for name, index, offset in step.rows
            ]
            whole = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **(step.fields or {})}
            await client.send(FetchRequest(session_id=session_id, session_epoch=epoch, **whole), version)
            frame = await client.receive_frame()
            for name, topic_id in ids.items():
                frame = frame.replace(topic_id, name.encode())
            session_id, epoch = SESSION_ID, 1 if epoch == LAST_EPOCH else epoch + 1
            node.now_ms += 1
            (session,) = node.fetch_sessions._sessions.values()
            state = [
                [getattr(each, name) for name in FetchPartitionOfSession.__slots__ if name != "topic_id"]
                for each in session.partitions.values()
            ]
            found.append((frame[4:].replace(port, b"port"), (session.epoch, session.last_used_ms, state)))
        return found


@pytest.mark.parametrize("steps", [ONE, MANY], ids=["one partition", "many partitions"])
@pytest.mark.parametrize("version", [*VERSIONS, 10, 12])
async def test_both_ways_go_on_with_a_session_in_the_same_way(
    version: int, steps: list[Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("short", "full"):
        os.mkdir(tmp_path / name)
    is_short: list[bool] = []

    def noted(*arguments: Any) -> Any:
        frame = read_short(*arguments)
        is_short.append(frame is not None)
        return frame

    monkeypatch.setattr(short_path, "read", noted)
    short = await play(tmp_path / "short", version, APIS, steps)
    if version in VERSIONS:
        tried = [step.is_short for step in steps[1:] if len(step.rows) == 1]
        assert is_short == tried
    assert short == await play(tmp_path / "full", version, without_short_path(), steps)
