"""The table of differences that have a reason. A row covers a difference by API, path and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.differential.comparing import Difference
    from tests.differential.requests import Request


@dataclass(frozen=True, slots=True)
class Explained:
    """One row: the APIs (a regular expression), the path (another), and why it differs.

    `when` sees the request and the difference, and narrows the row.
    """

    apis: str
    path: str
    reason: str
    when: Callable[[Request, Difference], bool] = lambda request, difference: True

    def covers(self, request: Request, difference: Difference) -> bool:
        """Whether this row is about a difference."""
        return (
            re.fullmatch(self.apis, request.api) is not None
            and re.fullmatch(self.path, difference.path) is not None
            and self.when(request, difference)
        )


TABLE: tuple[Explained, ...] = ()


def explanation(request: Request, difference: Difference) -> Any:
    """The row that covers a difference, or None."""
    return next((row for row in TABLE if row.covers(request, difference)), None)
