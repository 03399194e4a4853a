"""Listing, verifying, and making a lost log again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.log.export_log import DamagedLog, list_export
from kcli.spark.export.options import WriteOptions
from kcli.spark.export.repair import repair_export
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.split import FieldFormat, OnBadValue, Reading
from tests.spark.export.exporting import (
    export,
    files_in,
    offsets_in,
    offsets_on_disk,
    options,
    temporary_files,
)
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.spark.export.test_resuming import StopsAfter, begun
from tests.support.spark_exports import state_of

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIRST = "topic=orders/partition=0/part-00000000000000000000-00000000000000000100-000001.parquet"


def problems(target: Path) -> list[tuple[str, str]]:
    return [(one.path, one.reason) for one in verify_export(LocalTarget(str(target))).problems]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def swap(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-6] ^= 1  # in the length of the footer
    path.write_bytes(data)


def flip_in_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 0x20
    path.write_bytes(data)


def replace_by_neighbour(path: Path) -> None:
    other = path.with_name("part-00000000000000000100-00000000000000000200-000001.parquet")
    commit = state_of(path.parents[2]) / "log/0000000001.commit.json"
    sizes = [f'"size_bytes":{file.stat().st_size}' for file in (path, other)]
    commit.write_text(commit.read_text().replace(*sizes))
    shutil.copy(other, path)


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (Path.unlink, "missing"),
    "cut": (cut, "bytes instead of"),
    "no Parquet": (swap, ", the commit says 0x"),
    "a flipped bit": (flip_in_a_page, ", the commit says 0x"),
    "another's": (replace_by_neighbour, ", the commit says 0x"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_that_is_not_as_committed_is_found(harm: str, tmp_path: Path) -> None:
    export(FakeSource.of(200), tmp_path)
    assert problems(tmp_path) == []
    do, reason = HARMS[harm]
    do(tmp_path / FIRST)
    ((path, found),) = problems(tmp_path)
    assert path == FIRST
    assert reason in found


def test_a_file_that_no_commit_knows_is_found(tmp_path: Path) -> None:
    export(FakeSource.of(100), tmp_path)
    shutil.copy(tmp_path / FIRST, tmp_path / FIRST.replace(".parquet", "-1.parquet"))
    assert problems(tmp_path) == [
        (FIRST.replace(".parquet", "-1.parquet"), "no commit knows of it, but readers find it")
    ]


def test_what_a_running_plan_has_written_is_no_problem(tmp_path: Path) -> None:
    export(FakeSource.of(100), tmp_path)
    begun(tmp_path, FakeSource.of(300))
    verified = verify_export(LocalTarget(str(tmp_path)))
    assert verified.problems == ()
    assert verified.notes == ("plan 2 is not finished: the next export goes on with it",)
    assert (verified.files, verified.rows) == (1, 100)


def test_no_export_is_told(tmp_path: Path) -> None:
    with pytest.raises(KcliError, match="holds no export"):
        list_export(LocalTarget(str(tmp_path)))


def test_a_damaged_commit_is_told(tmp_path: Path) -> None:
    export(FakeSource.of(100), tmp_path)
    (state_of(tmp_path) / "log/0000000001.commit.json").write_text('{"commit":')
    with pytest.raises(DamagedLog, match=r"damaged: `_kcli/log/0000000001.commit.json`"):
        export(FakeSource.of(100), tmp_path)


# --- repair --------------------------------------------------------------------------------------------

DATED = options(write=WriteOptions(layout=Layout(("topic", "partition", "date"))))
SOURCE = {"fake_reader": FakeReader(step_us=1_500_000_000)}
"""A split of a hundred offsets is two days."""


def exported_twice(target: Path) -> FakeSource:
    source = FakeSource.of(250, 90, **SOURCE)
    export(source, target, DATED)
    source.grow(P0, 300)
    export(source, target, DATED)
    return source


def lose_everything(target: Path) -> None:
    shutil.rmtree(state_of(target))


def lose_commits(target: Path) -> None:
    for file in state_of(target).glob("log/*.commit.json"):
        file.unlink()


def lose_plans_too(target: Path) -> None:
    shutil.rmtree(state_of(target) / "log")


def damage_last(target: Path) -> None:
    (state_of(target) / "log/0000000002.commit.json").write_text("{")


def damage_first(target: Path) -> None:
    (state_of(target) / "log/0000000001.commit.json").write_text("{")


def lose_first(target: Path) -> None:
    (state_of(target) / "log/0000000001.commit.json").unlink()


def lose_identity(target: Path) -> None:
    (state_of(target) / "export.json").unlink()


LOSSES = [lose_everything, lose_commits, lose_plans_too, damage_last, damage_first, lose_first, lose_identity]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_log_is_made_again(lose: Callable[[Path], None], tmp_path: Path) -> None:
    source = exported_twice(tmp_path)
    data = {path for path in files_in(tmp_path) if not path.startswith("_kcli")}
    lose(tmp_path)
    with pytest.raises(KcliError):
        list_export(LocalTarget(str(tmp_path)))
    repair_export(LocalTarget(str(tmp_path)))
    source.grow(P0, 350)
    source.grow(P1, 120)
    export(source, tmp_path, DATED)
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(350)), P1: list(range(120))}
    assert data <= files_in(tmp_path)
    assert problems(tmp_path) == []
    assert repair_export(LocalTarget(str(tmp_path))).commit is None


def ruin(*numbers: int, kinds: tuple[str, ...] = ("commit",)) -> Callable[[Path], None]:
    """Cut files of the log off."""

    def do(target: Path) -> None:
        for number in numbers:
            for kind in kinds:
                (state_of(target) / f"log/{number:010d}.{kind}.json").write_text("{")

    return do


def lose(*numbers: int, kinds: tuple[str, ...] = ("commit",)) -> Callable[[Path], None]:
    """Remove files of the log."""

    def do(target: Path) -> None:
        for number in numbers:
            for kind in kinds:
                (state_of(target) / f"log/{number:010d}.{kind}.json").unlink()

    return do


BOTH = ("plan", "commit")
EMPTY_LOSSES = {
    "the only commit": ruin(1),
    "the only commit and its plan": ruin(1, kinds=BOTH),
    "the only commit and who wrote it": lambda target: (ruin(1)(target), lose_identity(target)),
    "everything that was said": lambda target: (ruin(1, kinds=BOTH)(target), lose_identity(target)),
    "who wrote it, which was cut off": lambda target: (state_of(target) / "export.json").write_text("{"),
}


@pytest.mark.parametrize("harm", EMPTY_LOSSES)
def test_a_log_of_commits_without_files_is_made_again(harm: str, tmp_path: Path) -> None:
    nothing = options(write=WriteOptions(where="offset < 0"))
    source = FakeSource.of(250, 90)
    export(source, tmp_path, nothing)
    EMPTY_LOSSES[harm](tmp_path)
    if not repair_export(LocalTarget(str(tmp_path))).begins_afresh:
        assert repair_export(LocalTarget(str(tmp_path))).commit is None
    source.grow(P0, 300)
    export(source, tmp_path)
    kept_positions = harm not in ("the only commit and its plan", "everything that was said")
    assert offsets_in(tmp_path)[P0] == list(range(250 if kept_positions else 0, 300))
    assert problems(tmp_path) == []


LATER_LOSSES = {
    "its commit": ruin(3),
    "its commit, with that before": ruin(2, 3),
    "its plan and no commit is there": lambda target: (lose(3)(target), ruin(3, kinds=("plan",))(target)),
    "all commits": lose(1, 2, 3),
    "all commits and the plan before": lambda target: (
        lose(1, 2, 3)(target),
        lose(2, kinds=("plan",))(target),
    ),
}


@pytest.mark.parametrize("harm", LATER_LOSSES)
def test_a_commit_without_files_behind_others_is_made_again(harm: str, tmp_path: Path) -> None:
    source = exported_twice(tmp_path)
    source.grow(P0, 320)
    nothing = options(write=replace(DATED.write, where="offset < 0"))
    export(source, tmp_path, nothing)
    LATER_LOSSES[harm](tmp_path)
    repair_export(LocalTarget(str(tmp_path)))
    assert repair_export(LocalTarget(str(tmp_path))).commit is None
    source.grow(P0, 350)
    export(source, tmp_path, DATED)
    found = offsets_in(tmp_path)
    assert found[P1] == list(range(90))
    assert found[P0] in ([*range(300), *range(320, 350)], list(range(350)))
    assert problems(tmp_path) == []


def test_a_whole_log_is_left_as_it_is(tmp_path: Path) -> None:
    exported_twice(tmp_path)
    before = files_in(tmp_path)
    assert repair_export(LocalTarget(str(tmp_path))).commit is None
    assert files_in(tmp_path) == before


def test_an_unfinished_plan_survives_the_loss_of_the_commits(tmp_path: Path) -> None:
    source = exported_twice(tmp_path)
    source.grow(P0, 500)
    with pytest.raises(KcliError):
        export(source, tmp_path, DATED, engine=StopsAfter(1))
    for number in (1, 2):
        (state_of(tmp_path) / f"log/{number:010d}.commit.json").write_text("")
    repair_export(LocalTarget(str(tmp_path)))
    assert export(source, tmp_path, DATED).resumed
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(500)), P1: list(range(90))}


def test_files_behind_a_hole_of_a_plan_that_is_lost_are_exported_again(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    export(source, tmp_path)
    source.grow(P0, 600)
    begun(tmp_path, source, tasks=1)
    (second,) = tmp_path.rglob("*-000002.parquet")
    third = second.with_name("part-00000000000000000500-00000000000000000600-000002.parquet")
    begun(tmp_path, source, tasks=2)
    next(tmp_path.rglob("part-00000000000000000400*")).unlink()
    lose_everything(tmp_path)
    repair = repair_export(LocalTarget(str(tmp_path)))
    assert repair.removed == (str(third.relative_to(tmp_path)),)
    assert (state_of(tmp_path) / "set-aside" / third.relative_to(tmp_path)).exists()
    assert repair.next_offsets == {"orders": {0: 400}}
    export(source, tmp_path)
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(600))}


def test_a_plan_without_any_trace_in_the_log_counts_as_far_as_its_files_go(tmp_path: Path) -> None:
    source = exported_twice(tmp_path)
    source.grow(P0, 500)
    export(source, tmp_path, DATED)
    for kind in ("plan", "commit"):
        (state_of(tmp_path) / f"log/0000000003.{kind}.json").unlink()
    (state_of(tmp_path) / "log/0000000001.commit.json").write_text("{")
    assert repair_export(LocalTarget(str(tmp_path))).next_offsets == {"orders": {0: 500, 1: 90}}
    assert export(source, tmp_path, DATED).committed_plans == ()
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(500)), P1: list(range(90))}


def test_a_split_that_was_half_renamed_is_renamed(tmp_path: Path) -> None:
    source = FakeSource.of(100, **SOURCE)
    export(source, tmp_path, DATED)
    (_, last) = sorted(tmp_path.rglob("*.parquet"))
    last.rename(last.with_name(f".{last.name}.0badcafe"))
    lose_everything(tmp_path)
    repair_export(LocalTarget(str(tmp_path)))
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(100))}
    assert temporary_files(tmp_path) == []


def test_what_is_no_export_is_not_repaired(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("…")
    with pytest.raises(KcliError, match="holds no export"):
        repair_export(LocalTarget(str(tmp_path)))
    assert files_in(tmp_path) == {"other.txt"}


@pytest.mark.parametrize("lose", [lose_everything, lose_commits, lose_identity])
def test_no_export_goes_on_with_a_log_that_is_lost(lose: Callable[[Path], None], tmp_path: Path) -> None:
    source = exported_twice(tmp_path)
    lose(tmp_path)
    before = files_in(tmp_path)
    with pytest.raises(KcliError):
        export(source, tmp_path, DATED)
    assert files_in(tmp_path) - {"_kcli/lock"} == before - {"_kcli/lock"}


def test_a_repair_keeps_the_dead_letters_of_every_commit(tmp_path: Path) -> None:
    write = WriteOptions(
        reading=Reading(columns=("key", "offset")),
        key=FieldFormat("long"),
        on_bad_value=OnBadValue.DEAD_LETTER,
    )
    source = FakeSource.of(150)
    export(source, tmp_path, options(write=write))
    source.grow(P0, 200)
    export(source, tmp_path, options(write=write))
    letters = set(state_of(tmp_path).glob("dead-letter/values/*.dead-letter"))
    lose_identity(tmp_path)
    repair_export(LocalTarget(str(tmp_path)))
    assert len(letters) > 1
    assert set(state_of(tmp_path).glob("dead-letter/values/*.dead-letter")) == letters
