"""Verification of a partition: every harm to a log and its tables is told by its kind and place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.forensics.verification.findings import MOST_OF_A_KIND, FindingKind, Severity
from tests.forensics.verification.sound_partition import (
    DEEP,
    OFFSET_FIELDS,
    SANITY,
    SNAPSHOT_FIELDS,
    TABLE_SIZES,
    TIME_FIELDS,
    TRANSACTION_FIELDS,
    found,
    kinds,
    problems,
    segment_files,
)
from tests.support.harms import (
    entries_of_log,
    entries_of_table,
    entry_at,
    entry_harms,
    field_harms,
    first_difference,
)
from tests.support.log_files import write_at_rest

pytestmark = pytest.mark.usefixtures("at_rest")


def log_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    path = segment_files(sound, ".log")[1]
    data = path.read_bytes()
    entries = entries_of_log(data)
    chosen = [entries[0], entries[len(entries) // 2], entries[-1]]
    for harm in (*field_harms(data, chosen), *entry_harms(data, chosen[:1] + entries[-2:])):
        if harm.verb == "swap" and harm.entry == 0:
            continue  # the two chosen are no neighbours
        yield str(harm), path, harm.data, harm.entry


def table_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    for suffix, fields, start in (
        (".index", OFFSET_FIELDS, 0),
        (".timeindex", TIME_FIELDS, 0),
        (".txnindex", TRANSACTION_FIELDS, 0),
    ):
        path = segment_files(sound, suffix)[1]
        data = path.read_bytes()
        entries = entries_of_table(data, fields, start)
        assert len(entries) > 1 or suffix == ".txnindex"
        for harm in (*field_harms(data, entries), *entry_harms(data, entries)):
            yield f"{suffix}: {harm}", path, harm.data, harm.entry


def snapshot_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    path = segment_files(sound, ".snapshot")[0]
    data = path.read_bytes()
    header = entries_of_table(data[:10], SNAPSHOT_FIELDS)
    for harm in field_harms(data, header):
        yield f".snapshot: {harm}", path, harm.data, harm.entry


def is_sparser(path: Path, data: bytes) -> bool:
    """Whether an offset index lacks but its last entries, which does no harm and cannot be told."""
    kept = data.rstrip(b"\0")
    whole = data[: -(-len(kept) // 8) * 8]
    return path.suffix == ".index" and not len(data) % 8 and path.read_bytes().startswith(whole)


@pytest.mark.parametrize("harms", [log_harms, table_harms, snapshot_harms], ids=lambda each: each.__name__)
def test_every_harm_is_told_where_it_is(
    sound: Path, harmed: Path, harms: Callable[[Path], Iterator[tuple[str, Path, bytes, int]]]
) -> None:
    count = 0
    for name, original, data, _ in harms(sound):
        if is_sparser(original, data):
            continue
        count += 1
        path = harmed / original.name
        write_at_rest(path, data)
        told = [each for each in found(harmed) if each.path == str(path)]
        bad = [each for each in told if each.severity is not Severity.INFO]
        # A larger offset in an index entry may be that of a later batch, as Kafka once wrote it.
        allowed = {FindingKind.INDEX_OLD_MULTI_BATCH, FindingKind.INDEX_OLD_FIRST_OFFSET}
        others = problems(harmed) if not bad else []
        assert bad or others or kinds(told) & allowed, name
        if bad and original.suffix != ".snapshot" and len(data) == original.stat().st_size:
            at = first_difference(original.read_bytes(), data)
            width = TABLE_SIZES.get(original.suffix, 0)
            place = at // width * width if width else entry_at(entries_of_log(original.read_bytes()), at)
            # Of two that are swapped, the second is out of place; it begins at most this far behind.
            reach = width or max(entry.size for entry in entries_of_log(original.read_bytes()))
            assert any(each.position is None or place <= each.position <= place + reach for each in bad), (
                name,
                bad,
            )
        path.write_bytes(original.read_bytes())
    assert count > 20
    assert problems(harmed) == []


INDEX_CASES = {
    "another offset": (".index", "offset", 1 << 20, FindingKind.INDEX_MISMATCH),
    "a position inside a batch": (".index", "position", 5, FindingKind.INDEX_POSITION),
    "a position past the log": (".index", "position", 1 << 20, FindingKind.INDEX_PAST_LOG),
    "another timestamp": (".timeindex", "timestamp", 1 << 40, FindingKind.TIME_INDEX_MISMATCH),
    "an offset inside a batch": (".timeindex", "offset", 1, FindingKind.TIME_INDEX_NOT_FOUND),
    "an offset past the log": (".timeindex", "offset", 1 << 20, FindingKind.TIME_INDEX_NOT_FOUND),
    "another producer": (".txnindex", "producer id", 1 << 8, FindingKind.TRANSACTION_INDEX_MISMATCH),
    "another first offset": (".txnindex", "first offset", 1, FindingKind.TRANSACTION_INDEX_MISMATCH),
    "another stable offset": (
        ".txnindex",
        "last stable offset",
        1,
        FindingKind.TRANSACTION_INDEX_MISMATCH,
    ),
    "a marker that is none": (".txnindex", "last offset", 1, FindingKind.TRANSACTION_INDEX_NO_MARKER),
}
FIELDS = {".index": OFFSET_FIELDS, ".timeindex": TIME_FIELDS, ".txnindex": TRANSACTION_FIELDS}


@pytest.mark.parametrize("case", INDEX_CASES)
def test_an_index_entry_has(case: str, harmed: Path) -> None:
    suffix, field, difference, kind = INDEX_CASES[case]
    path = segment_files(harmed, suffix)[1]
    fields = FIELDS[suffix]
    size = sum(width for _, _, width in fields)
    data = bytearray(path.read_bytes())
    slot = len(data) // size - 1
    _, at, width = next(each for each in fields if each[0] == field)
    start = slot * size + at
    value = int.from_bytes(data[start : start + width], "big") ^ difference
    data[start : start + width] = value.to_bytes(width, "big")
    write_at_rest(path, data)
    told = [each for each in problems(harmed) if each.path == str(path)]
    assert (kind, slot * size) in {(each.kind, each.position) for each in told}


def test_entries_out_of_order_are_told(harmed: Path) -> None:
    for suffix, size, kind in (
        (".index", 8, FindingKind.INDEX_ORDER),
        (".timeindex", 12, FindingKind.TIME_INDEX_ORDER),
    ):
        path = segment_files(harmed, suffix)[0]
        data = path.read_bytes()
        path.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
        told = [each for each in problems(harmed) if each.path == str(path)]
        assert [(each.kind, each.position) for each in told] == [(kind, size)]


def test_the_time_index_of_a_closed_segment_is_complete_and_of_the_last_may_lag(harmed: Path) -> None:
    closed, last = segment_files(harmed, ".timeindex")[0], segment_files(harmed, ".timeindex")[-1]
    last.write_bytes(last.read_bytes()[:-12])
    assert problems(harmed) == []
    closed.write_bytes(closed.read_bytes()[:-12])
    assert [(each.kind, each.path) for each in problems(harmed)] == [
        (FindingKind.TIME_INDEX_INCOMPLETE, str(closed))
    ]


def test_an_aborted_transaction_must_be_in_the_index(harmed: Path) -> None:
    path = segment_files(harmed, ".txnindex")[0]
    path.unlink()
    assert FindingKind.TRANSACTION_INDEX_INCOMPLETE in kinds(problems(harmed))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_bytes_are_nothing_breaks(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    directory = tmp_path / "orders-0"
    if not directory.exists():
        shutil.copytree(sound, directory)
    names = sorted(path.name for path in sound.iterdir())
    name = data.draw(st.sampled_from(names))
    content = bytearray((sound / name).read_bytes())
    at = data.draw(st.integers(0, len(content)))
    removed = data.draw(st.integers(0, 20))
    content[at : at + removed] = data.draw(st.binary(max_size=20))
    (directory / name).write_bytes(content)
    try:
        for options in (DEEP, SANITY):
            found(directory, options)
    finally:
        (directory / name).write_bytes((sound / name).read_bytes())


def test_findings_of_a_kind_are_bounded(harmed: Path) -> None:
    path = segment_files(harmed, ".index")[0]
    path.write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x01" * (MOST_OF_A_KIND + 500))
    told = [each for each in found(harmed) if each.path == str(path)]
    assert len(told) == MOST_OF_A_KIND + 1
    assert told[-1].kind is FindingKind.MORE_FINDINGS
