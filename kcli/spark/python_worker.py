"""What a Spark Python worker needs besides the task: errors with hints, and less garbage collection.

A user sees nothing of an error in a worker but the text of its traceback, which shows the cause of an error
before the error: so the message becomes the cause. PySpark's daemon has a worker
collect garbage after every task, which looks at every object of every library each time: a sixth of the CPU
time of an export of large records.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator


_Said = type("error", (Exception,), {"__module__": "builtins"})
"""A message without a traceback; its name is what a traceback shows before the message."""


class _MessageFirst(KcliError):
    """An error whose traceback begins with its message and hint, as those of its cause.

    PySpark removes the cause of an error whose traceback it shortens; this one is always there.
    """

    @property
    def __cause__(self) -> BaseException:
        said: BaseException = _Said(self.message)
        if self.hint is not None:
            said.add_note(f"hint: {self.hint}")
        return said

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None: ...


def _message_first(kind: type[KcliError]) -> type[KcliError]:
    """Return a class with the name of `kind`."""
    made: Any = type(kind.__name__, (_MessageFirst, kind), {"__module__": kind.__module__})
    return cast("type[KcliError]", made)


@contextmanager
def hinted() -> Iterator[None]:
    """Make an error's message and hint the first lines of its traceback."""
    try:
        yield
    except KcliError as error:
        kind = type(error)
        if not issubclass(kind, _MessageFirst):
            error.__class__ = _message_first(kind)
        raise


def keep_what_is_loaded() -> None:
    """Freeze what is loaded when a worker's first task ends (`gc.freeze`); elsewhere do nothing."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
