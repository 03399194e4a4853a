"""Fixtures of the storage tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.log_harness import LogHarness
from tests.storage.node_logs import NodeLogs
from tests.storage.sound_partition import write_partition


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


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition that nothing is wrong with."""
    return write_partition(tmp_path_factory.mktemp("sound")).directory


@pytest.fixture
def harmed(sound: Path, tmp_path: Path) -> Path:
    """A copy that harm may be done to."""
    return Path(shutil.copytree(sound, tmp_path / sound.name))


@pytest.fixture(scope="module")
def at_rest() -> Iterator[None]:
    """Take files that the test has just cut for what nobody writes any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kcli.storage.entry_look._RECENT_SECONDS", 0.005)
        yield
