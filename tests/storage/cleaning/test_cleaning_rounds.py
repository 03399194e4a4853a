"""What several rounds of compaction leave, batch by batch: cases of Kafka's `LogCleanerTest`, retold.

Logs are written, and told, in a short notation:

| written | means |
|---|---|
| `a,b~` | a batch with the keys a and b, of which b is deleted |
| `1:a` | a batch of the idempotent producer 1 |
| `1=a` | a batch of a transaction of producer 1 |
| `1@a` | the same, by a coordinator, which has no sequences |
| `+1`, `-1` | a commit, an abort |
| `/` | the segment is closed |

| told | means |
|---|---|
| `4:a,b` | of the batch up to offset 4 the keys a and b are left |
| `4:` | of the batch up to offset 4 the header is left |
| `4:+`, `4:-` | a marker |
| `4:()` | the header of a marker |
| `*` | the batch has a delete horizon |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.records.message_set import encode_entry
from kcli.storage.cleaning.cleaning_job import READ_BYTES
from kcli.storage.cleaning.offset_map import ENTRY_BYTES
from kcli.storage.log.log_appender import LogAppendInfo
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.cleaning.cleaning_harness import COMPACTED, CleaningHarness
from tests.storage.log_harness import NOW_MS, batch_of, with_fields

RETENTION_MS = COMPACTED.delete_retention_ms
SPAN = 2**31


class Round(NamedTuple):
    """What is written, and what a round leaves of the closed segments.

    `aborted` are the transactions in the index: producer, first and last offset. `waits` is set where the
    delete horizons have come by then.
    """

    writes: str
    left: str
    aborted: Sequence[tuple[int, int, int]] = ()
    waits: bool = False
    keys: int = 1000
    """How many keys fit into the map."""


SCENARIOS: dict[str, list[Round]] = {
    "a commit stays until its records have gone, and a while longer": [
        Round("1=a 1=b,c +1 1=b +1 /", "0:a 2:c 3:+ 4:b 5:+"),
        Round("1=a,c +1 /", "3:+ 4:b 5:+ 7:a,c 8:+"),
        Round("z /", "3:+* 4:b 5:+ 7:a,c 8:+ 9:z"),
        Round("z /", "3:+* 4:b 5:+ 7:a,c 8:+ 10:z"),
        Round("z /", "4:b 5:+ 7:a,c 8:+ 11:z", waits=True),
    ],
    "a commit stays while the header of its last batch does": [
        Round("1=b,c / 2=b,c +2 / b c +1 /", "1: 3: 4:+ 5:b 6:c 7:+"),
        Round("z /", "1: 3: 4:+ 5:b 6:c 7:+ 8:z", waits=True),
        Round("2=a +2 /", "1: 4:+ 5:b 6:c 7:+ 8:z 9:a 10:+"),
        Round("z /", "1: 4:+* 5:b 6:c 7:+ 9:a 10:+ 11:z"),
        Round("z /", "1: 5:b 6:c 7:+ 9:a 10:+ 12:z", waits=True),
    ],
    "a marker without records keeps its header for the epoch": [
        Round("+1 b c /", "0:+* 1:b 2:c"),
        Round("z /", "0:() 1:b 2:c 3:z", waits=True),
        Round("z /", "0:() 1:b 2:c 4:z", waits=True),
    ],
    "a committed transaction in two segments": [
        Round("1=a / +1 /", "0:a 1:+"),
        Round("z /", "0:a 1:+ 2:z", waits=True),
    ],
    "an aborted transaction in two segments": [
        Round("1=a / -1 /", "0: 1:-", [(1, 0, 1)]),
        Round("z /", "0: 1:- 2:z", [(1, 0, 1)], waits=True),
    ],
    "an abort leaves the index before the log": [
        Round("1=a 1=b,c -1 1=c +1 /", "3:- 4:c 5:+", [(1, 0, 3)]),
        Round("z /", "3:-* 4:c 5:+ 6:z"),
        Round("z /", "4:c 5:+ 7:z", waits=True),
    ],
    "an abort stays while the header of its last batch does": [
        Round("1=b,c -1 /", "1: 2:-", [(1, 0, 2)]),
        Round("z /", "1: 2:- 3:z", [(1, 0, 2)], waits=True),
        Round("1=a +1 /", "2:- 3:z 4:a 5:+", [(1, 0, 2)]),
        Round("z /", "2:-* 4:a 5:+ 6:z"),
        Round("z /", "4:a 5:+ 7:z", waits=True),
    ],
    "the last sequence of an aborted transaction": [
        Round("1=a 1=b,c -1 /", "2: 3:-", [(1, 0, 3)]),
        Round("1=a,d +1 /", "3:- 5:a,d 6:+", [(1, 0, 3)]),
    ],
    "transactions of a coordinator, whose batches have no sequences": [
        Round("1@a +1 1@b +1 a b /", "1:+ 2: 3:+ 4:a 5:b"),
        Round("z /", "1:+* 2: 3:+ 4:a 5:b 6:z"),
        Round("z /", "2: 3:+ 4:a 5:b 7:z", waits=True),
    ],
    "a key has an aborted value and then a committed one": [
        Round("1=a,b 2=b,c 1=c,d -1 +2 1=b +1 /", "3:c 6:- 7:+ 8:b 9:+", [(1, 0, 6)]),
    ],
    "nothing is left between two markers": [
        Round("1=a -1 1=b 1=b +1 /", "1:- 3:b 4:+", [(1, 0, 1)]),
        Round("z /", "1:-* 3:b 4:+ 5:z"),
        Round("z /", "3:b 4:+ 6:z", waits=True),
    ],
    "transactions that end behind the part that is cleaned": [
        Round("1=a,b 3=b,c 2=c,d / 2=e,f 3=f,g 1=g,h -2 3=h,i +3 1=i,j -1", "3:b,c 5:"),
        Round("/ 2=k 1=l", "3:b,c 9:f,g 12:- 14:h,i 15:+ 18:-", [(1, 0, 18), (2, 4, 12)]),
    ],
    "a map that is too small for the whole segment": [
        Round(
            "1=a,b 2=b,c 1=c,d +1 +2 1=b,c -1 2=d,e 1=e,f +1 -2 2=f,g +2 /",
            "1:a 3:b 5:c,d 6:+ 7:+ 10:- 14:e,f 15:+ 16:- 18:f,g 19:+",
            [(1, 8, 10), (2, 11, 16)],
            keys=3,
        ),
        Round("", "1:a 3:b 5:c,d 6:+ 7:+ 10:-* 14:e,f 15:+ 16:-* 18:f,g 19:+", keys=3),
        Round("", "1:a 3:b 5:c,d 6:+ 7:+ 14:e 15:+ 18:f,g 19:+", waits=True, keys=3),
    ],
    "a map that has room for one key": [
        Round("a b a b a /", "0:a 1:b 2:a 3:b 4:a", keys=1),
        Round("", "0:a 1:b 2:a 3:b 4:a", keys=1),
        Round("", "1:b 2:a 3:b 4:a", keys=1),
        Round("", "2:a 3:b 4:a", keys=1),
        Round("", "3:b 4:a", keys=1),
    ],
    "the last batch of each idempotent producer": [
        Round("1:a,b,c 2:c,a,d 3:a,d /", "2:b 5:c 7:a,d"),
        Round("4:b /", "2: 5:c 7:a,d 8:b"),
    ],
    "only the newest batch of a producer keeps its header": [
        Round("a 1:a 2:a 3:a 2:b /", "1: 3:a 4:b"),
    ],
    "a tombstone of a key that comes back": [
        Round("a b a~ /", "1:b 2:a~*"),
        Round("a /", "1:b 3:a"),
        Round("b~ a~ /", "4:b~* 5:a~*"),
        Round("z /", "6:z", waits=True),
    ],
}


def write(log: CleaningHarness, writes: str) -> None:
    """Append what the notation says."""
    for word in writes.split():
        if word == "/":
            log.roll()
        elif word[0] in "+-":
            log.end(int(word[1:]), is_commit=word[0] == "+")
        else:
            put(log, word)


def put(log: CleaningHarness, word: str) -> LogAppendInfo:
    """Append a batch; a producer goes on with its sequence."""
    digit, kind, listed = re.fullmatch("(?:([0-9])([:=@]))?(.+)", word).groups()  # type: ignore[union-attr]
    keys = listed.split(",")
    producer = None
    if digit is not None:
        known = log.log.producer_state.producers.get(int(digit))
        sequence = 0 if known is None else known.last_sequence + 1
        producer = int(digit), 0, -1 if kind == "@" else sequence
    batch = batch_of(
        *[None if key.endswith("~") else b"v" for key in keys],
        keys=tuple(key.rstrip("~").encode() for key in keys),
        producer=producer,
        is_transactional=kind in {"=", "@"},
    )
    origin = AppendOrigin.COORDINATOR if kind == "@" else AppendOrigin.CLIENT
    return log.append_batch(batch, origin=origin)


def told(batch: RecordBatch) -> str:
    """Return a batch in the notation."""
    records = list(batch.records())
    horizon = "" if batch.delete_horizon_ms is None else "*"
    if not batch.is_control:
        left = ",".join(
            bytes(each.key or b"").decode() + ("~" if each.value is None else "") for each in records
        )
    elif not records:
        left = "()"
    else:
        left = "+" if parse_control_key(records[0].key) is ControlRecordType.COMMIT else "-"
    return f"{batch.last_offset}:{left}{horizon}"


def closed(log: CleaningHarness) -> str:
    """Return the closed segments in the notation."""
    active = log.log.segments.active.base_offset
    return " ".join(told(batch) for batch in log.log.segments.batches_between(0, active))  # type: ignore[arg-type]


def aborted(log: CleaningHarness) -> list[tuple[int, int, int]]:
    """Return what the indexes of the closed segments hold."""
    return sorted(
        (each.producer_id, each.first_offset, each.last_offset)
        for segment in log.log.segments
        if segment is not log.log.segments.active
        for each in segment.indexes.transactions.entries()
    )


@pytest.mark.parametrize("read_bytes", [READ_BYTES, 100], ids=["", "a batch at a time"])
@pytest.mark.parametrize("rounds", SCENARIOS.values(), ids=SCENARIOS)
def test_what_each_round_leaves(rounds: list[Round], read_bytes: int, tmp_path: Path) -> None:
    log, now_ms = CleaningHarness(tmp_path), NOW_MS
    for each in rounds:
        write(log, each.writes)
        end_offset, stable, producers = state(log)
        now_ms += RETENTION_MS if each.waits else 1
        run = log.clean(now_ms, map_bytes=each.keys * (ENTRY_BYTES + 1), read_bytes=read_bytes)
        assert run is not None
        assert (closed(log), aborted(log)) == (each.left, list(each.aborted))
        log.reopen()
        log.log.cleaner_offset = run.end_offset
        assert (closed(log), aborted(log)) == (each.left, list(each.aborted))
        assert state(log) == (end_offset, stable, producers)
        assert log.reports == []
    # Without snapshots and indexes the log itself says the same.
    before = closed(log), state(log)
    log.crash()
    assert (closed(log), state(log)) == before


def state(log: CleaningHarness) -> tuple[int, int, dict[int, tuple[int, int, int]]]:
    """Return the ends of a log, and epoch, last sequence and open transaction of each producer."""
    producers = {
        each.producer_id: (each.producer_epoch, each.last_sequence, each.current_txn_first_offset)
        for each in log.log.producer_state.producers.values()
    }
    return log.log.log_end_offset, log.log.last_stable_offset, producers


def test_batches_that_lost_records_are_recognised_when_they_come_again(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path)
    write(log, "1:a,b,c 2:c,a,d 3:a,d /")
    for left in ("2:b 5:c 7:a,d", "2: 5:c 7:a,d 8:b"):
        log.clean()
        assert closed(log) == left
        log.crash()
        for producer_id, first_offset, last_offset in ((1, 0, 2), (2, 3, 5), (3, 6, 7)):
            keys = (b"any",) * (last_offset - first_offset + 1)
            again = log.append_batch(batch_of(*keys, keys=keys, producer=(producer_id, 0, 0)))
            assert (again.duplicate, again.first_offset, again.last_offset) == (
                True,
                first_offset,
                last_offset,
            )
        write(log, "4:b /")


def test_a_key_like_that_of_a_marker_is_a_key_like_others(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path)
    write(log, "1=a +1")
    log.put((b"\0\0\0\1", b"value"), producer=(2, 0, 0), is_transactional=True)
    write(log, "+2 /")
    log.clean()
    assert [offset for offset, _, _ in log.kept()] == [0, 2]
    assert closed(log).split()[1::2] == ["1:+", "3:+"]


def sparse(log: CleaningHarness, *places: tuple[int, str]) -> None:
    """Append records as a follower: (offset, key)."""
    for offset, key in places:
        batch = with_fields(batch_of(b"v", keys=(key.encode(),)), base_offset=offset)
        log.log.append_as_follower(batch, now_ms=NOW_MS)
        log.log.advance_high_watermark_to_end()


def test_a_round_gets_past_offsets_that_are_missing(tmp_path: Path) -> None:
    """An earlier compaction of its leader leaves such gaps in a follower, also between its segments."""
    log = CleaningHarness(tmp_path)
    sparse(log, *[(offset, f"k{offset}") for offset in range(10)])
    log.roll()
    sparse(log, *[(offset, f"k{offset}") for offset in range(15, 25)])
    log.roll()
    sparse(log, (30, "k30"))
    log.roll()
    sparse(log, (40, "k40"))
    run = log.clean()
    assert run is not None
    assert run.end_offset == log.log.segments.active.base_offset
    assert [offset for offset, _, _ in log.kept()] == [*range(10), *range(15, 25), 30, 40]
    log.reopen()
    assert log.log.log_end_offset == 41


def test_segments_of_which_nothing_is_left_become_one(tmp_path: Path) -> None:
    """Offsets that one segment cannot hold keep segments apart, but empty segments have no offsets."""
    log = CleaningHarness(tmp_path)
    for number in range(3):
        sparse(log, (number * SPAN, "a"))
        sparse(log, (number * SPAN + SPAN - 1, "a"))
        log.roll()
    write(log, "a")
    log.clean()
    assert log.bases == [0, SPAN, 2 * SPAN, 3 * SPAN]
    assert [log.path(base).stat().st_size for base in log.bases[:2]] == [0, 0]
    log.reopen()
    write(log, "/")
    log.clean()
    assert log.bases == [0, 2 * SPAN, 3 * SPAN, 3 * SPAN + 1]
    log.crash()
    assert [(offset, key) for offset, key, _ in log.kept()] == [(3 * SPAN, b"a")]
    assert log.log.log_end_offset == 3 * SPAN + 1
    assert log.reports == []


def test_records_above_a_limit_that_was_lowered_are_cleaned(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path, replace(COMPACTED, segment_bytes=1_000_000, max_message_bytes=200_000))
    for value in (b"1", b"2"):
        log.put((b"a", value * 100_000), (b"b", value))
    log.configure(max_message_bytes=1000)
    log.roll()
    log.clean(read_bytes=1000)
    assert [(offset, key) for offset, key, _ in log.kept()] == [(2, b"a"), (3, b"b")]


def test_a_preallocated_log_has_cleaned_segments_of_their_own_size(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path, replace(COMPACTED, preallocate=True))
    write(log, "a b a /")
    log.clean()
    assert log.path(0).stat().st_size == log.log.segments.first.size < COMPACTED.segment_bytes
    log.crash()
    assert closed(log) == "1:b 2:a"


@pytest.mark.parametrize("inner_magic", [0, 1])
def test_message_sets_become_batches_at_the_same_offsets(inner_magic: int, tmp_path: Path) -> None:
    """Compaction by old brokers left sets of magic 1 with messages of magic 0 (KAFKA-4298)."""
    log = CleaningHarness(tmp_path)
    for base_offset, keys in ((25, "abab"), (50, "de")):
        entries = b"".join(
            encode_entry(number, inner_magic, 0, NOW_MS, key.encode(), b"%d" % (base_offset + number))
            for number, key in enumerate(keys)
        )
        wrapped = compress(Codec.GZIP, entries)
        message_set = encode_entry(base_offset + len(keys) - 1, 1, Codec.GZIP, NOW_MS, None, wrapped)
        log.log.append_as_follower(message_set, now_ms=NOW_MS)
    log.log.advance_high_watermark_to_end()
    log.roll()
    log.clean()
    assert log.kept() == [(27, b"a", b"27"), (28, b"b", b"28"), (50, b"d", b"50"), (51, b"e", b"51")]
    assert {batch.magic for batch in log.log.segments.batches_between(0, 52)} == {2}
    log.crash()
    assert log.log.log_end_offset == 52
