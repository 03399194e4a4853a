"""Fixtures of the tests of forensics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forensics.verification.sound_partition import write_partition
from tests.storage.log_harness import LogHarness


@pytest.fixture
def log(tmp_path: Path) -> LogHarness:
    """An empty log with small segments."""
    return LogHarness(tmp_path)


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
        patch.setattr("kcli.forensics.entries.segment_file._RECENT_SECONDS", 0.005)
        yield
