"""A node without a cluster around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start(9092)
    yield node
    node.log_manager.close(now_ms=node.now_ms)
