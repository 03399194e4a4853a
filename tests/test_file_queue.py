"""The order in which several processes take test files: the longest first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_queue import APACHE, GROUPS, LONGEST, SPARK, TOOLS, put_in_order, scope

ROOT = Path(__file__).parent.parent


@dataclass
class Test:
    """As much of a test as the order depends on."""

    __test__ = False
    nodeid: str


def test_files_come_by_their_length() -> None:
    tests: list[Any] = [
        Test("tests/protocol/test_a.py::one"),
        Test("tests/interop/test_b.py::one"),
        Test(f"{APACHE[0]}::two"),
        Test(f"{APACHE[0]}::one"),
        Test("tests/test_c.py::one"),
    ]
    put_in_order(tests)
    assert [test.nodeid.rpartition("/")[2] for test in tests] == [
        "test_clients_matrix.py::two",
        "test_clients_matrix.py::one",
        "test_b.py::one",
        "test_a.py::one",
        "test_c.py::one",
    ]


def test_files_that_share_something_go_to_one_process() -> None:
    assert scope("tests/interop/test_partly.py::one") == "tests/interop/test_partly.py"
    assert scope(f"{GROUPS}mixed.py::one") == GROUPS
    assert {scope(f"{path}::one") for path in APACHE} == {APACHE[0]}
    assert {scope(f"{path}::one") for path in TOOLS} == {TOOLS[0]}
    assert scope(f"{SPARK[1]}test_probe.py::one") == SPARK[0]


@pytest.mark.parametrize("start", LONGEST)
def test_there_are_files_that_begin_so(start: str) -> None:
    assert list(ROOT.glob(f"{start}*"))
