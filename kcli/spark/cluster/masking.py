"""Masking: properties as they may be shown, in plan files, logs, `explain` and errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "********"

_SECRET = re.compile(
    r"password|secret|token|credential|jaas|basic\.auth|ssl\.key(store)?\.key|\.key$", re.IGNORECASE
)


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with the values of those hidden that may hold credentials."""
    return {name: MASK if _SECRET.search(name) else value for name, value in properties.items()}
