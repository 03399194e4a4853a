"""Tables: on however narrow a terminal, every value is there."""

from __future__ import annotations

import pytest

from kcli.commands.output import Table, print_tables

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
