"""A node without a cluster around it, and time that stands still."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import trio.testing

from tests.broker.single_node import Node
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start(9092)
    yield node
    node.log_manager.close(now_ms=node.now_ms)


@pytest.fixture
def clock() -> Iterator[trio.testing.MockClock]:
    """A clock that only goes on when the test says so, while sockets work as ever.

    An answer that never comes must not hang the test, whose time stands still.
    """

    def give_up(*_: object) -> None:
        raise TimeoutError("an answer never came")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(round(PATIENCE_SECONDS))
    yield trio.testing.MockClock()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
