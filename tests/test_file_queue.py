"""The order in which several processes take test files: the longest first, and before them what is alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_queue import (
    ALONE,
    APACHE,
    GROUPS,
    LONGEST,
    SPARK,
    TOOLS,
    put_in_order,
    scope,
    write_alone,
)

ROOT = Path(__file__).parent.parent


@dataclass
class Test:
    """As much of a test as the order depends on."""

    __test__ = False
    nodeid: str
    is_alone: bool = False

    @property
    def path(self) -> Path:
        return ROOT / self.nodeid.split("::")[0]

    def get_closest_marker(self, name: str) -> str | None:
        return name if self.is_alone else None


def test_files_come_by_their_length_and_first_what_is_alone() -> None:
    tests: list[Any] = [
        Test("tests/protocol/test_a.py::one"),
        Test("tests/interop/test_b.py::one"),
        Test("tests/interop/test_partly.py::beside"),
        Test("tests/interop/test_partly.py::alone", is_alone=True),
        Test(f"{APACHE[0]}::two"),
        Test(f"{APACHE[0]}::one"),
        Test("tests/test_alone.py::alone", is_alone=True),
    ]
    put_in_order(tests)
    assert [test.nodeid.rpartition("/")[2] for test in tests] == [
        "test_partly.py::alone",
        "test_alone.py::alone",
        "test_clients_matrix.py::two",
        "test_clients_matrix.py::one",
        "test_b.py::one",
        "test_partly.py::beside",
        "test_a.py::one",
    ]


def test_what_is_alone_goes_to_one_process_and_so_do_files_that_share_something(tmp_path: Path) -> None:
    alone, beside = "tests/interop/test_partly.py::alone", "tests/interop/test_partly.py::beside"
    tests: list[Any] = [Test(alone, is_alone=True), Test(beside)]
    write_alone(tests, tmp_path)
    names = (tmp_path / ALONE).read_text().splitlines()
    assert names == [alone]
    assert scope(alone, names) == GROUPS == scope(f"{GROUPS}mixed.py::one", names)
    assert scope(beside, names) == "tests/interop/test_partly.py"
    assert {scope(f"{path}::one", names) for path in APACHE} == {APACHE[0]}
    assert {scope(f"{path}::one", names) for path in TOOLS} == {TOOLS[0]}
    assert scope(f"{SPARK[1]}test_probe.py::one", names) == SPARK[0]


@pytest.mark.parametrize("start", LONGEST)
def test_there_are_files_that_begin_so(start: str) -> None:
    assert list(ROOT.glob(f"{start}*"))
