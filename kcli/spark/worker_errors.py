"""Errors that end in a Spark worker: all that a user sees of them is the text of a traceback."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def hinted() -> Iterator[None]:
    """Let an error's hint stand below its message in the traceback."""
    try:
        yield
    except KcliError as error:
        if error.hint is not None and not hasattr(error, "__notes__"):
            error.add_note(f"hint: {error.hint}")
        raise
