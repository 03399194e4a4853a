"""Who runs the tasks of an export: processes here, or Spark, which is not started for nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from kcli.commands.export.export_options import EngineName, Via
from kcli.commands.shared.arguments import parse_properties

if TYPE_CHECKING:
    from kcli.commands.export.export_options import EngineChoice
    from kcli.spark.export.engine import Engine, Progress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.options import WriteOptions
    from kcli.spark.export.writing.task import SplitTask

LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")


def slots_of(choice: EngineChoice) -> int:
    """Return how many tasks would run at the same time here; a cluster tells only when it is asked."""
    match = LOCAL_MASTER.fullmatch(choice.master or "local[*]")
    cores = len(os.sched_getaffinity(0))
    if match is None or match[1] == "*":
        return cores
    return int(match[1] or 1) or cores


def open_engine(
    choice: EngineChoice, *, by_sql: WriteOptions | None = None, is_idle: bool = False
) -> AbstractContextManager[Engine]:
    """Return what runs the tasks, for the time of a block; if it is idle Spark starts with the first task.

    `by_sql` is what Spark SQL is to do with the rows, None if nothing.
    """
    if choice.engine is EngineName.LOCAL:
        return local_engine(choice)
    if is_idle:
        return LateEngine(lambda: spark_engine(choice, by_sql=by_sql), slots_of(choice))
    return spark_engine(choice, by_sql=by_sql)


@contextmanager
def local_engine(choice: EngineChoice) -> Iterator[Engine]:
    """Give processes of this machine."""
    from kcli.spark.engines.local_engine import LocalEngine

    with closing(LocalEngine(slots_of(choice))) as engine:
        yield engine


@contextmanager
def spark_engine(choice: EngineChoice, *, by_sql: WriteOptions | None) -> Iterator[Engine]:
    """Give the Spark session there is, or one of its own."""
    from kcli.spark.engines.session import SessionSettings, open_session

    settings = SessionSettings(
        master=choice.master,
        conf=parse_properties(choice.conf, "--conf"),
        app_name="kcli spark-export",
        only_schedules=by_sql is None,
    )
    via_connector = {Via.AUTO: None, Via.NATIVE: False, Via.CONNECTOR: True}[choice.via]
    with open_session(settings) as session:
        if by_sql is None:
            yield session.engine()
        else:
            engine = session.sql_engine(via_connector=via_connector)
            engine.check(by_sql)
            yield engine


class LateEngine:
    """Opens another engine when there is a task after all."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Engine]], slots: int) -> None:
        self._open = opened
        self._stack = ExitStack()
        self._engine: Engine | None = None
        self.slots = slots

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run the tasks, if there are any."""
        if tasks and self._engine is None:
            self._engine = self._stack.enter_context(self._open())
        if self._engine is not None:
            self._engine.run(tasks, on_done, progress)

    def close(self) -> None:
        """Let go of the other engine."""
        self._stack.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
