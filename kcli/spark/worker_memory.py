"""What a Spark worker has loaded, out of the way of its garbage collector.

PySpark's daemon has a worker collect garbage after every task, which means to look at every object of every
library each time: that cost an export of large records a sixth of its CPU time.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def keep_what_is_loaded() -> None:
    """Take what there is when a worker's first task ends for permanent; elsewhere do nothing."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
