"""Exports that die: whatever the moment, who runs it again gets every offset once and nothing else.

`KCLI_CRASH_ROUNDS` says how many times more than in the ordinary run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from tests.spark.export.crash_server import CrashServer, moments
from tests.spark.export.exporting import offsets_in, offsets_on_disk, temporary_files
from tests.support.spark_exports import state_of

ROUNDS = int(os.environ.get("KCLI_CRASH_ROUNDS", "1"))
DATED = ("topic", "partition", "date")
A_THIRD_OF_A_DAY_US = 28_800_000_000 // 50
"""So far apart are records, so that a split of a hundred goes into two or three files."""


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    with CrashServer() as running:
        yield running


def check(target: Path, *lengths: int) -> None:
    """Every offset once, for those who ask the log and for those who read the directory; and all in order."""
    expected = {("orders", index): list(range(length)) for index, length in enumerate(lengths) if length}
    assert offsets_in(target) == expected
    assert offsets_on_disk(target) == expected
    assert temporary_files(target) == []
    assert verify_export(LocalTarget(str(target))).problems == ()


def test_an_export_may_die_at_every_step(server: CrashServer, tmp_path: Path) -> None:
    case = {"lengths": [120, 30], "layout": DATED, "step_us": A_THIRD_OF_A_DAY_US * 3}
    steps = server.export(tmp_path / "whole", **case)
    assert steps > 30
    for step in range(1, steps + 1):
        target = tmp_path / f"died-at-{step}"
        assert server.export(target, dies_at=step, **case) == -1
        assert server.export(target, **case) >= 0
        check(target, 120, 30)


@pytest.mark.parametrize("seed", range(6 * ROUNDS))
def test_an_export_that_resumes_may_die_again_and_again(
    server: CrashServer, tmp_path: Path, seed: int
) -> None:
    random = moments(seed)
    lengths = [10, 0]
    died = 0
    while died < 12:
        lengths = [length + random.choice([0, 30, 130]) for length in lengths]
        case = {"lengths": lengths, "layout": DATED, "step_us": A_THIRD_OF_A_DAY_US}
        while server.export(tmp_path / "lake", dies_at=random.randrange(1, 60), **case) == -1:
            died += 1
        check(tmp_path / "lake", *lengths)


def test_an_export_may_be_killed_at_any_moment(server: CrashServer, tmp_path: Path) -> None:
    random = moments(2)
    lengths = [0, 0]
    for _ in range(8 * ROUNDS):
        lengths = [length + 150 for length in lengths]
        case = {"lengths": lengths, "seconds_per_chunk": 0.002}
        for _ in range(4):
            server.export(tmp_path / "lake", killed_after_s=random.uniform(0, 0.12), **case)
        assert server.export(tmp_path / "lake", **case) >= 0
        check(tmp_path / "lake", *lengths)


def test_an_export_of_partitions_that_share_files_may_die_at_every_step(
    server: CrashServer, tmp_path: Path
) -> None:
    lengths = [5] * 20
    case = {"lengths": lengths, "layout": ("topic", "date", "hour"), "step_us": 3_600_000_000}
    steps = server.export(tmp_path / "whole", **case)
    for step in range(1, steps + 1, 1 if ROUNDS > 1 else 3):
        target = tmp_path / f"died-at-{step}"
        assert server.export(target, dies_at=step, **case) == -1
        assert server.export(target, **case) >= 0
        assert len(list(target.rglob("*.parquet"))) == 5
        check(target, *lengths)


@pytest.mark.parametrize("on_reset", ["earliest", "replace"])
def test_an_export_of_a_topic_made_again_may_die_at_every_step(
    server: CrashServer, tmp_path: Path, on_reset: str
) -> None:
    before = {"lengths": [60, 30]}
    after = {"lengths": [40, 50], "topic_id": "id-2", "on_reset": on_reset}
    server.export(tmp_path / "whole", **before)
    steps = server.export(tmp_path / "whole", **after)
    for step in range(1, steps + 1, 1 if ROUNDS > 1 else 3):
        target = tmp_path / f"died-at-{step}"
        server.export(target, **before)
        assert server.export(target, dies_at=step, **after) == -1
        assert server.export(target, **after) >= 0
        check(target, 40, 50)
        old = state_of(target) / "old-logs/2"
        assert old.exists() == (on_reset == "earliest")
        if old.exists():
            assert offsets_on_disk(old) == {("orders", 0): list(range(60)), ("orders", 1): list(range(30))}
            [note] = verify_export(LocalTarget(str(target))).notes
            assert note.endswith(f"in {old.parent}")


@pytest.mark.parametrize("on_reset", ["earliest", "replace"])
def test_an_export_that_takes_a_partition_out_of_shared_files_may_die_at_every_step(
    server: CrashServer, tmp_path: Path, on_reset: str
) -> None:
    dated = {"layout": ("topic", "date"), "step_us": A_THIRD_OF_A_DAY_US}
    before = {"lengths": [60, 30, 60], **dated}
    after = {"lengths": [60, 50, 90], "diverges": [[1, 20]], "on_reset": on_reset, **dated}
    server.export(tmp_path / "whole", **before)
    steps = server.export(tmp_path / "whole", **after)
    for step in range(1, steps + 1, 1 if ROUNDS > 1 else 3):
        target = tmp_path / f"died-at-{step}"
        server.export(target, **before)
        assert server.export(target, dies_at=step, **after) == -1
        assert server.export(target, **(after | {"diverges": []})) >= 0
        check(target, 60, 50, 90)


def test_an_overwriting_export_may_die_at_every_step(server: CrashServer, tmp_path: Path) -> None:
    before = {"lengths": [60, 30]}
    after = {"lengths": [40], "mode": "overwrite"}
    server.export(tmp_path / "whole", **before)
    steps = server.export(tmp_path / "whole", **after)
    for step in range(1, steps + 1, 1 if ROUNDS > 1 else 2):
        target = tmp_path / f"died-at-{step}"
        server.export(target, **before)
        assert server.export(target, dies_at=step, **after) == -1
        assert server.export(target, **after) >= 0
        check(target, 40)
