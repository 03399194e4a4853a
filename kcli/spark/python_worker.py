"""What a Spark Python worker needs besides the task: errors with hints, and less garbage collection.

A user sees nothing of an error in a worker but the text of its traceback. PySpark's daemon has a worker
collect garbage after every task, which looks at every object of every library each time: a sixth of the CPU
time of an export of large records.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def hinted() -> Iterator[None]:
    """Add an error's hint below its message in the traceback."""
    try:
        yield
    except KcliError as error:
        if error.hint is not None and not hasattr(error, "__notes__"):
            error.add_note(f"hint: {error.hint}")
        raise


def keep_what_is_loaded() -> None:
    """Freeze what is loaded when a worker's first task ends (`gc.freeze`); elsewhere do nothing."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
