"""Fixtures of the storage tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.log_harness import LogHarness


@pytest.fixture
def log(tmp_path: Path) -> LogHarness:
    """An empty log with small segments."""
    return LogHarness(tmp_path)
