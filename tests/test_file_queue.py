"""The order in which several processes take test files: the longest first, and before them what is alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_queue import LONGEST, put_in_order

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
        Test(f"{LONGEST[0]}::two"),
        Test(f"{LONGEST[0]}::one"),
        Test("tests/test_alone.py::alone", is_alone=True),
    ]
    put_in_order(tests)
    assert [test.nodeid.rpartition("/")[2] for test in tests] == [
        "test_alone.py::alone",
        "test_partly.py::alone",
        "test_partly.py::beside",
        "test_clients_matrix.py::two",
        "test_clients_matrix.py::one",
        "test_b.py::one",
        "test_a.py::one",
    ]


@pytest.mark.parametrize("start", LONGEST)
def test_there_are_files_that_begin_so(start: str) -> None:
    assert list(ROOT.glob(f"{start}*"))
