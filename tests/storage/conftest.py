"""Fixtures of the storage tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.dirs.node_logs import NodeLogs
from tests.storage.log_harness import LogHarness


@pytest.fixture
def log(tmp_path: Path) -> LogHarness:
    """An empty log with small segments."""
    return LogHarness(tmp_path)


@pytest.fixture
def node(tmp_path: Path) -> NodeLogs:
    """A started node with one directory."""
    made = NodeLogs(tmp_path)
    made.start()
    return made


@pytest.fixture
def pair(tmp_path: Path) -> NodeLogs:
    """A started node with two directories."""
    made = NodeLogs(tmp_path, 2)
    made.start()
    return made


@pytest.fixture
def filled(log: LogHarness) -> LogHarness:
    """A log of 40 records in three segments, nothing of it flushed."""
    log.fill(40)
    assert len(log.bases) == 3
    return log
