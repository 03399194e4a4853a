"""RetryWarnings: warns once of each error that makes a request wait for longer than three seconds.

Short errors, as while a leader changes, are not worth a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.client.network.connection import RequestTimedOut
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.errors import KcliError

PATIENCE_SECONDS = 3.0
"""How long an error is retried before it is reported: by then a handful of tries have failed."""


class RetryWarnings:
    """Calls `warn` with one line per subject and error; `last` is the newest, reported or not."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.last = ""
        self._warn = warn
        self._reported: set[tuple[str, ErrorCode]] = set()

    def note(self, subject: str, error: KafkaError, *, since: float) -> None:
        """Note the error of one try; `since` is when the first try began."""
        self.last = f"{subject}: {error_text(error)}"
        if trio.current_time() >= since + PATIENCE_SECONDS:
            self.warn(subject, error)

    def warn(self, subject: str, error: KafkaError) -> None:
        """Report an error, unless the same one of the same subject was reported."""
        reported = (subject, error.code)
        if reported not in self._reported:
            self._reported.add(reported)
            self._warn(f"{subject}: still trying: {error_text(error)}")


def request_error(error: KcliError) -> KafkaError:
    """Return the error code and message for a request that got no response."""
    code = ErrorCode.REQUEST_TIMED_OUT if isinstance(error, RequestTimedOut) else ErrorCode.NETWORK_EXCEPTION
    return KafkaError(code, error.message)


def error_text(error: KafkaError) -> str:
    return f"{error.code.name}: {error.message}"
