"""`append_run` does what the ordinary append of a follower does, or nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import KafkaError
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.unified_log import UnifiedLog
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

BATCH = st.tuples(
    st.integers(1, 5),
    st.sampled_from([-1, -1, 7, 8]),  # its producer
    st.sampled_from([Codec.NONE, Codec.LZ4]),
    st.integers(0, 3),  # the leader epoch goes up by so much before
)


def fill(log: UnifiedLog, batches: list[tuple[int, int, Codec, int]]) -> None:
    epoch = 0
    for count, producer_id, codec, step in batches:
        epoch += step // 3
        producer = None
        if producer_id >= 0:
            known = log.producer_state.producers.get(producer_id)
            producer = (producer_id, 0, 0 if known is None else known.last_sequence + 1)
        values = [b"value %d" % number for number in range(count)]
        records = batch_of(*values, producer=producer, codec=codec, timestamp=NOW_MS + count)
        log.append_as_leader(records, leader_epoch=epoch, now_ms=NOW_MS)


def runs(log: UnifiedLog, sizes: list[int]) -> list[bytes]:
    """Return the log in pieces that may end within a batch, as a follower gets it."""
    pieces, offset = [], 0
    while offset < log.log_end_offset:
        max_bytes = sizes[len(pieces) % len(sizes)]
        read = log.read(offset, max_bytes, isolation=Isolation.LOG_END)
        assert read.file_slice is not None
        piece = read.file_slice.read()
        pieces.append(piece)
        offset = _end_of(piece)
    return pieces


def _end_of(piece: bytes) -> int:
    at = end = 0
    while at + 27 <= len(piece):
        size = 12 + int.from_bytes(piece[at + 8 : at + 12], "big")
        if at + size > len(piece):
            break
        end = int.from_bytes(piece[at : at + 8], "big") + int.from_bytes(piece[at + 23 : at + 27], "big") + 1
        at += size
    return end


def contents(harness: LogHarness) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in harness.directory.iterdir()}


def state(log: UnifiedLog) -> object:
    producers = {each.producer_id: repr(each) for each in log.active_producers()}
    segments = [(segment.base_offset, segment.size, segment.tail) for segment in log.segments]
    return log.log_end_offset, producers, segments, log.leader_epochs.entries()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(BATCH, min_size=1, max_size=12), st.lists(st.integers(1, 900), min_size=1, max_size=4))
def test_one_pass_does_what_taking_apart_does(
    batches: list[tuple[int, int, Codec, int]], sizes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        leader, quick, thorough = (_harness(root, name) for name in ("leader", "quick", "thorough"))
        fill(leader.log, batches)
        for piece in runs(leader.log, sizes):
            if not quick.log.append_run(memoryview(bytearray(piece))):
                quick.log.append_as_follower(piece, now_ms=NOW_MS)
            thorough.log.append_as_follower(piece, now_ms=NOW_MS)
            assert state(quick.log) == state(thorough.log)
        for harness in (quick, thorough):
            harness.log.close(now_ms=NOW_MS)
        assert contents(quick) == contents(thorough)


@given(BATCH, st.data())
def test_damage_is_never_appended(batch: tuple[int, int, Codec, int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        leader, follower = _harness(root, "leader"), _harness(root, "follower")
        fill(leader.log, [batch])
        (piece,) = map(bytearray, runs(leader.log, [10_000]))
        # The checksum does not cover the bytes before the magic.
        position = data.draw(st.integers(16, len(piece) - 1))
        piece[position] ^= 1 << data.draw(st.integers(0, 7))
        ((epoch, _),) = leader.log.leader_epochs.entries()
        follower.log.leader_epochs.assign(epoch, 0)
        assert not follower.log.append_run(memoryview(piece))
        with pytest.raises(KafkaError):
            follower.log.append_as_follower(bytes(piece), now_ms=NOW_MS)
        assert follower.log.log_end_offset == follower.log.size_bytes == 0


def _harness(root: str, name: str) -> LogHarness:
    path = Path(root) / name
    path.mkdir()
    return LogHarness(path)
