"""Fixtures of the storage tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.log_harness import LogHarness
from tests.storage.node_logs import NodeLogs


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
