"""Loading: a shard gets the records of its log, and damage costs only what is damaged."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.coordinator.runtime.loader import RECORDS_PER_STEP, REPORTED, LogReplay
from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import decode_record, encode_key, encode_value
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from tests.broker.coordinator.runtime.notebook import Notebook, NotebookNode, notebook_node, record

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.coordinator.effects import CoordinatorRecord

Clock = trio.testing.MockClock


def batch(*records: CoordinatorRecord, offset: int = 0, **header: Any) -> bytearray:
    builder = RecordBatchBuilder(base_offset=offset, **header)
    for each in records:
        value = None if each.value is None else encode_value(each.value)
        builder.append(0, encode_key(each.key), value)
    return builder.build()


def raw_batch(*pairs: tuple[bytes | None, bytes | None], offset: int = 0, **header: Any) -> bytearray:
    builder = RecordBatchBuilder(base_offset=offset, **header)
    for key, value in pairs:
        builder.append(0, key, value)
    return builder.build()


def replayed(*pages: bytes) -> tuple[Notebook, LogReplay, list[str]]:
    notebook, lines = Notebook(), list[str]()
    replay = LogReplay(notebook, decode=decode_record, report=lines.append)
    for page in pages:
        for _ in replay.page(bytes(page)):
            pass
    return notebook, replay, lines


# --- pages


def test_the_last_record_of_a_key_counts() -> None:
    notebook, replay, lines = replayed(
        batch(record("a", 1), record("b", 1)) + batch(record("a", 2), record("b", None), offset=2),
        batch(record("c", 3), record("a", 4), offset=4),
    )
    assert notebook.numbers == {"a": 4, "c": 3}
    assert (replay.records, replay.next_offset, lines) == (6, 6, [])


def test_a_batch_that_ends_behind_its_page_is_left_for_the_next() -> None:
    first, second = batch(record("a", 1)), batch(record("b", 2), offset=1)
    notebook, replay, _ = replayed(first + second[:-1])
    assert (notebook.numbers, replay.next_offset, replay.damage) == ({"a": 1}, 1, None)


def test_a_long_page_stops_now_and_then() -> None:
    records = [record(f"group-{number}", number) for number in range(RECORDS_PER_STEP * 3)]
    replay = LogReplay(Notebook(), decode=decode_record, report=print)
    pages = b"".join(batch(each, offset=number) for number, each in enumerate(records))
    assert len(list(replay.page(pages))) == 6  # reading and replaying


PRODUCER = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
CONTROL = {**PRODUCER, "is_control": True}


def marker(kind: ControlRecordType, offset: int, producer_id: int = 7) -> bytearray:
    end = EndTxnMarker(kind, 0)
    return end_txn_batch(end, timestamp=0, producer_id=producer_id, producer_epoch=0, base_offset=offset)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (ControlRecordType.COMMIT, {"a": 2, "b": 9}),
        (ControlRecordType.ABORT, {"a": 1, "b": 9}),
        (None, {"a": 1, "b": 9}),
    ],
)
def test_the_records_of_a_transaction_count_when_it_is_committed(
    kind: ControlRecordType | None, numbers: dict[str, int]
) -> None:
    pages = batch(record("a", 1)) + batch(record("a", 2), offset=1, **PRODUCER)
    pages += batch(record("b", 9), offset=2)
    if kind is not None:
        pages += marker(kind, 3)
    notebook, _, lines = replayed(pages)
    assert (notebook.numbers, lines) == (numbers, [])


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(ControlRecordType.COMMIT, {"a": 2, "b": 3}), (ControlRecordType.ABORT, {"a": 1})],
)
def test_a_transaction_open_at_the_end_of_the_log_is_ended_by_a_later_marker(
    kind: ControlRecordType, numbers: dict[str, int]
) -> None:
    notebook, _, _ = replayed(
        batch(record("a", 1)) + batch(record("a", 2), record("b", 3), offset=1, **PRODUCER)
    )
    assert (notebook.numbers, notebook.open) == ({"a": 1}, {7: {"a": (2, 1), "b": (3, 2)}})
    notebook.replay_end(7, kind is ControlRecordType.COMMIT)
    assert (notebook.numbers, notebook.open) == (numbers, {})


def test_a_late_marker_does_not_override_what_was_written_after_its_records() -> None:
    pages = batch(record("a", 1), record("b", 2), record("c", 3), **PRODUCER)
    pages += batch(record("a", 4), record("b", None), offset=3)
    notebook, _, _ = replayed(pages + marker(ControlRecordType.COMMIT, 5))
    assert notebook.numbers == {"a": 4, "c": 3}


class Recorder(Notebook):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[object] = []

    def replay(self, key: Any, value: Any, offset: int = -1, producer_id: int = -1) -> None:
        self.calls.append((key.group, offset, producer_id))

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        self.calls.append((producer_id, is_commit))


def test_a_transaction_of_one_page_is_thinned_like_other_records() -> None:
    recorder = Recorder()
    pages = batch(record("a", 1), record("b", 1))
    for number, kind in enumerate([ControlRecordType.COMMIT, ControlRecordType.ABORT] * 50):
        offset = 2 + 4 * number
        pages += batch(record("a", number), record("c", 1), offset=offset, **PRODUCER)
        pages += batch(record("d", 1), offset=offset + 2) + marker(kind, offset + 3)
    replay = LogReplay(recorder, decode=decode_record, report=print)
    for _ in replay.page(bytes(pages)):
        pass
    assert recorder.calls == [("b", 1, -1), ("a", 394, -1), ("c", 395, -1), ("d", 400, -1)]
    assert (replay.records, replay.next_offset) == (402, 402)


def test_a_transaction_of_several_pages_comes_in_the_order_of_the_log() -> None:
    recorder = Recorder()
    replay = LogReplay(recorder, decode=decode_record, report=print)
    pages = [
        batch(record("a", 1))
        + batch(record("b", 1), record("a", 2), offset=1)
        # Until the end of the page it is unknown whether 7 will be committed.
        + batch(record("a", 3), offset=3, **PRODUCER)
        + batch(record("a", 4), offset=4)
        + batch(record("a", None), offset=5),
        batch(record("a", 6), offset=6)
        + batch(record("c", 7), offset=7, **PRODUCER)
        + marker(ControlRecordType.COMMIT, 8, producer_id=8)
        + batch(record("c", None), offset=9)
        + batch(record("c", 10), offset=10)
        + marker(ControlRecordType.ABORT, 11)
        + batch(record("a", 12), offset=12, **PRODUCER)
        + marker(ControlRecordType.COMMIT, 13),
    ]
    for page in pages:
        assert len(list(replay.page(bytes(page)))) == 0
    assert recorder.calls == [
        *[("b", 1, -1), ("a", 2, -1), ("a", 3, 7), ("a", 5, -1)],
        # A deletion is not thinned while a transaction is open: it ends what that has written.
        *[("a", 6, -1), ("c", 7, 7), ("c", 9, -1), ("c", 10, -1), (7, False), ("a", 12, -1)],
    ]


RECORDS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 99)), min_size=1, max_size=5
)
ENDS = st.sampled_from([ControlRecordType.COMMIT, ControlRecordType.ABORT])


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([-1, -1, 7, 8]), RECORDS) | st.tuples(st.sampled_from([7, 8]), ENDS),
        max_size=20,
    ),
    cuts=st.lists(st.integers(1, 5), max_size=20),
)
def test_any_log_in_any_pages_is_what_its_records_say(
    steps: list[tuple[int, list[tuple[str, int | None]] | ControlRecordType]], cuts: list[int]
) -> None:
    expected = Notebook()
    parts, offset = [], 0
    for producer_id, step in steps:
        if isinstance(step, ControlRecordType):
            parts.append(bytes(marker(step, offset, producer_id)))
            expected.replay_end(producer_id, step is ControlRecordType.COMMIT)
            offset += 1
            continue
        records = [record(*each) for each in step]
        producer = PRODUCER | {"producer_id": producer_id} if producer_id >= 0 else {}
        parts.append(bytes(batch(*records, offset=offset, **producer)))
        for each in records:
            expected.replay(each.key, each.value, offset, producer_id)
            offset += 1
    pages = []
    while parts:
        count = cuts.pop() if cuts else len(parts)
        pages.append(b"".join(parts[:count]))
        del parts[:count]
    notebook, replay, lines = replayed(*pages)
    assert (notebook.numbers, notebook.open) == (expected.numbers, expected.open)
    assert (replay.next_offset, lines) == (offset, [])


# --- damage


def damaged_pages() -> list[tuple[str, bytearray, list[str]]]:
    good = encode_key(record("x", 1).key)
    bad_crc = batch(record("a", 2), offset=1)
    bad_crc[-1] ^= 1
    return [
        ("checksum", bad_crc, ["offsets 1 to 1: the checksum is wrong"]),
        ("no key", raw_batch((None, b"v"), offset=1), ["offset 1: it has no key"]),
        ("cut key", raw_batch((b"\0\1\0\5ab", b"\0\0"), offset=1), ["offset 1: "]),
        (
            "empty value",
            raw_batch((good, b""), offset=1),
            ["offset 1: Could not read version from value's buffer"],
        ),
        ("future version", raw_batch((good, b"\0\x63"), offset=1), ["offset 1: unknown version"]),
        (
            "future type",
            raw_batch((b"\0\x63..", b"v"), (b"\0\x63,,", b"v"), offset=1),
            ["records of an unknown type"],
        ),
        ("replay", batch(record("unbearable", 1), offset=1), ["offset 1: LookupError('cannot be')"]),
        (
            "replay in a transaction",
            batch(record("unbearable", 1), offset=1, **PRODUCER),
            ["offset 1: LookupError('cannot be')"],
        ),
        (
            "no key in a transaction",
            raw_batch((None, b"v"), offset=1, **PRODUCER),
            ["offset 1: it has no key"],
        ),
        ("marker without a type", raw_batch((b"\0", b""), offset=1, **CONTROL), ["offset 1: the key of a"]),
    ]


@pytest.mark.parametrize(
    ("page", "expected"), [each[1:] for each in damaged_pages()], ids=[each[0] for each in damaged_pages()]
)
def test_damage_costs_a_line_and_nothing_around_it(page: bytearray, expected: list[str]) -> None:
    notebook, replay, lines = replayed(batch(record("a", 1)) + page + batch(record("b", 5), offset=3))
    assert notebook.numbers == {"a": 1, "b": 5}
    assert replay.next_offset == 4
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(f"passed over {start}"), line


def test_much_damage_does_not_flood_the_log() -> None:
    pages = b"".join(raw_batch((None, b"v"), offset=number) for number in range(100))
    _, replay, lines = replayed(pages)
    assert replay.passed_over == 100
    assert len(lines) == REPORTED + 1


def test_a_size_that_cannot_be_ends_the_page() -> None:
    garbage = batch(record("b", 1), offset=1)
    garbage[8:12] = b"\0\0\0\1"
    notebook, replay, _ = replayed(batch(record("a", 1)) + garbage)
    assert (notebook.numbers, replay.next_offset) == ({"a": 1}, 1)
    assert replay.damage == "an entry cannot be as short as 13 bytes"


@given(position=st.integers(0, 10_000), byte=st.integers(1, 255))
def test_no_changed_byte_raises(position: int, byte: int) -> None:
    page = batch(record("a", 1), record("b", 2)) + batch(record("c", 3), offset=2)
    page[position % len(page)] ^= byte
    replayed(page)


# --- a node's log


async def reload(node: NotebookNode) -> Notebook:
    """Make the node lose and regain leadership; return the loaded shard."""
    controller = node.node.controller
    controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
    controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
    await trio.testing.wait_all_tasks_blocked()
    return node.runtime.shard(0)


def is_loading(node: NotebookNode) -> bool:
    try:
        node.runtime.shard(0)
    except KafkaError as error:
        return error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return False


def overwrite(path: str, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def fill(node: NotebookNode, count: int) -> None:
    for number in range(count):
        node.put(record(f"group-{number % 50}", number), record("last", number))


async def test_a_log_of_many_segments_is_read_in_pages(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(load_buffer_bytes=1000)) as node:
        node.create(internal_segment_bytes="20000")
        fill(node, 500)
        assert len(list(node.partition.log.segments)) > 3
        before = node.runtime.shard(0).numbers
        assert (await reload(node)).numbers == before


async def test_a_page_as_small_as_a_byte_still_gets_on(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(load_buffer_bytes=1)) as node:
        node.create()
        fill(node, 20)
        assert (await reload(node)).numbers == node.runtime.shard(0).numbers


async def test_behind_damage_in_a_segment_the_next_one_is_read(
    autojump_clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(internal_segment_bytes="20000")
        fill(node, 300)
        expected = node.runtime.shard(0).numbers
        segment = next(iter(node.partition.log.segments))
        overwrite(segment.records.path, segment.size // 2, bytes(5000))
        with caplog.at_level(logging.WARNING):
            assert (await reload(node)).numbers == expected
        torn, rest = (each.getMessage() for each in caplog.records if "passed over" in each.getMessage())
        assert torn.startswith("__notebook-0: passed over offsets ")
        assert torn.endswith(": the checksum is wrong")
        assert rest.endswith(": an entry cannot be as short as 12 bytes")


async def test_a_log_that_is_cut_short_under_the_broker_is_read_as_far_as_it_goes(
    autojump_clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        fill(node, 10)
        segment = node.partition.log.segments.active
        os.truncate(segment.records.path, segment.size - 3)
        assert (await reload(node)).numbers["last"] == 8
        assert "passed over offsets 18 to 19" in caplog.text


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
async def test_compressed_batches_are_read(codec: Codec, autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(codec=codec)) as node:
        node.create()
        fill(node, 50)
        assert len((await reload(node)).numbers) == 51


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), OSError("odd")])
async def test_a_log_that_could_not_be_read_is_read_again(
    error: Exception,
    autojump_clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its directory is sound, so the shard is not closed: it must not stay in loading."""
    async with notebook_node(tmp_path, CoordinatorSettings(load_buffer_bytes=1000)) as node:
        node.create()
        fill(node, 100)
        expected = node.runtime.shard(0).numbers
        log, fails_at = node.partition.log, [1, 3]
        read, calls = log.read, []

        def failing(*arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            if len(calls) in fails_at:
                raise error
            return read(*arguments, **options)

        monkeypatch.setattr(type(log), "read", lambda self, *given, **options: failing(*given, **options))
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        await trio.sleep(2.5)
        assert is_loading(node)
        await trio.sleep(1)
        assert node.runtime.shard(0).numbers == expected
        lines = [each.getMessage() for each in caplog.records if "cannot read" in each.getMessage()]
        assert [line.partition(": ")[0] for line in lines] == [
            f"cannot read __notebook-0, trying again in {seconds} s" for seconds in (1, 2)
        ]


async def test_a_log_that_cannot_be_read_is_let_go_with_its_leadership(
    autojump_clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        fill(node, 10)
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)

        def fail(*_: Any, **__: Any) -> Any:
            raise OSError("odd")

        monkeypatch.setattr(type(node.partition.log), "read", fail)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        await trio.sleep(10)
        assert is_loading(node)
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        count = len(caplog.records)
        await trio.sleep(100)
        assert len(caplog.records) == count


async def test_others_run_while_a_long_log_is_read(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        fill(node, 2000)
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        turns = 0
        while is_loading(node):
            turns += 1
            await trio.lowlevel.checkpoint()
        assert turns >= 2000 * 2 // RECORDS_PER_STEP
