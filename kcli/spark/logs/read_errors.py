"""Errors of the file system, as users read them: never to be taken for damage in the files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import KcliError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class CannotRead(KcliError):
    """A file or directory that the system does not let be read."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn an `OSError` into `CannotRead`; `path` is named where the error itself names none."""
    try:
        yield
    except OSError as error:
        raise CannotRead(f"cannot read `{error.filename or path}`: {reason_of(error)}") from error
