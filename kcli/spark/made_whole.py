"""What cannot be left half made, like a Spark session: Ctrl-C waits until it is made, or ended.

pyspark knows of its JVM, and could end it, only once the two are connected; a call into the JVM that is cut
off leaves a broken connection, and tracebacks on the terminal.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kcli.spark.job.stopping import stop_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Thing = TypeVar("Thing")


@contextmanager
def made_whole(make: Callable[[], Thing], end: Callable[[Thing], None]) -> Iterator[Thing]:
    """Give what `make` returns for the time of the block, and end it.

    The first SIGINT, SIGTERM or SIGHUP in one of the two raises `KeyboardInterrupt` when that has returned; a
    second one raises it inside of them at once, and what is half made or half ended is then for them to clear
    away.
    """
    made: list[Thing] = []
    try:
        with stop_requests() as asked:
            made.append(make())
        asked.obey()
        yield made[0]
    finally:
        with stop_requests() as asked:
            for thing in made:
                end(thing)
        asked.obey()
