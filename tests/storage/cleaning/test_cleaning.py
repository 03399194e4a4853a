"""Rounds of compaction on a log: what stays, at which offsets, and what the files are afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.storage.cleaning.cleaning_harness import CleaningHarness


def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path)
    log.put((b"a", b"1"), (b"b", b"1"))
    log.put((b"a", b"2"), (b"c", b"1"))
    log.put((b"b", b"2"))
    log.roll()
    log.put((b"a", b"3"))
    run = log.clean()
    assert run is not None
    expected = [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert log.kept() == expected
    assert log.bases == [0, 5]
    assert log.log.cleaner_offset == run.end_offset == 5
    log.reopen()
    assert log.kept() == expected
    assert [record.offset for record in log.records()] == [2, 3, 4, 5]
    assert log.reports == []
