"""Tables: every value is complete on a terminal of any width."""

from __future__ import annotations

import pytest

from kcli.commands.shared.output import Table, print_tables

WIDTH = 12


def test_a_terminal_too_narrow_for_a_table_loses_no_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    columns = ("Topic", "Partition", "Leader", "Replicas", "Isr", "LastKnownElr")
    print_tables([Table(columns, [("a", 0, 1, "2", "3", "4")])])
    *_, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["a", "0", "1", "2", "3", "4"]


def test_a_long_path_is_in_one_piece_to_be_copied(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    path = "/var/lib/kafka/" + "data" * 10
    print_tables([Table(("Topic", "Directory", "Bytes"), [("orders" * 9, path, 7), ("a", None, 8)])])
    print_tables([Table(("Topic", "Directory"), [("orders" * 9, "/d1")])])
    header, _, whole, _, *narrow = capsys.readouterr().out.splitlines()
    assert header.split() == ["Topic", "Directory", "Bytes"]
    assert whole.split() == ["orders" * 9, path, "7"]
    assert max(map(len, narrow)) == 40
