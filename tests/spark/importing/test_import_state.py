"""What is left to send, from what stands in the target; and the file that remembers where that began."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import KcliError, UsageError
from kcli.spark.importing.import_state import ImportState, PartitionPlan, StateFile, plan_import


def state(**base: int) -> ImportState:
    return ImportState("orders", "copy", "cluster", "id", {int(name[1:]): end for name, end in base.items()})


@pytest.mark.parametrize(
    ("rows", "ends", "before", "expected"),
    [
        pytest.param({0: 9}, {0: 0}, None, [PartitionPlan(0, 0, 9)], id="new"),
        pytest.param({0: 9}, {0: 50}, None, [PartitionPlan(0, 50, 9)], id="behind what is there"),
        pytest.param({0: 9}, {0: 54}, state(p0=50), [PartitionPlan(0, 50, 9, 4)], id="interrupted"),
        pytest.param({0: 9}, {0: 59}, state(p0=50), [PartitionPlan(0, 50, 9, 9)], id="done"),
        pytest.param({0: 9}, {0: 53}, state(p0=50), [PartitionPlan(0, 50, 9, 3)], id="more was exported"),
        pytest.param(
            {1: 2, 0: 9}, {0: 51, 1: 7}, state(p0=50),
            [PartitionPlan(0, 50, 9, 1), PartitionPlan(1, 7, 2)], id="a partition is new",
        ),
    ],
)  # fmt: skip
def test_what_is_left(
    rows: dict[int, int], ends: dict[int, int], before: ImportState | None, expected: list[PartitionPlan]
) -> None:
    plans = plan_import(rows, ends, before, "copy")
    assert list(plans.values()) == expected
    assert [plan.todo for plan in plans.values()] == [plan.rows - plan.done for plan in expected]


@pytest.mark.parametrize(
    ("end", "message"),
    [(49, "it was truncated or made anew"), (60, "has 10 records since the import began, the export has 9")],
)
def test_a_target_that_is_not_as_it_was_left(end: int, message: str) -> None:
    with pytest.raises(KcliError, match=message) as caught:
        plan_import({0: 9}, {0: end}, state(p0=50), "copy")
    assert caught.value.hint is not None
    assert "--restart" in caught.value.hint


def test_a_state_is_written_and_read(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    assert file.load() is None
    file.save(state(p0=3, p7=5))
    assert file.load() == state(p0=3, p7=5)
    assert state(p0=3).is_of(state(p1=9))
    assert not state().is_of(ImportState("orders", "copy", "cluster", "other"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "base": {}}', "nonsense"])
def test_a_damaged_state_is_an_error_of_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"state\.json` is damaged: "):
        StateFile(path).load()


def test_one_import_at_a_time(tmp_path: Path) -> None:
    first, second = StateFile(tmp_path / "a" / "s.json"), StateFile(tmp_path / "a" / "s.json")
    with (
        first.lock(),
        pytest.raises(KcliError, match=r"another import into the topic is running: process \d+ on"),
        second.lock(),
    ):
        pass
    with second.lock():
        pass


def test_a_state_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(KcliError, match="cannot write") as caught,
        StateFile(tmp_path / "file" / "s.json").lock(),
    ):
        pass
    assert caught.value.hint == "`--state FILE` keeps the state of the import elsewhere"
