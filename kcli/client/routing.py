"""Who answers a request: a broker by its id, any of them, or the controller."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias


class _Role(Enum):
    ANY = "any broker"
    CONTROLLER = "the controller"


ANY: Final = _Role.ANY
"""The least-loaded broker."""

CONTROLLER: Final = _Role.CONTROLLER
"""The broker that metadata names as the controller (a KRaft broker forwards to it)."""

Target: TypeAlias = int | _Role
