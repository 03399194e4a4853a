"""What the tests of a node share."""

from __future__ import annotations

import pytest

from tests.broker.node.cleaning import Cleaning
from tests.broker.single_node import Node


@pytest.fixture
def cleaning(node: Node) -> Cleaning:
    return Cleaning(node)
