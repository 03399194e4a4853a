"""How `spark-export` runs: once or following its topics, by which engine, or another action altogether."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import parse_properties
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.spark.export.engine import Engine, Progress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.options import FollowOptions, WriteOptions
    from kcli.spark.export.writing.split_task import SplitTask

LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")

BRIEF_BYTES = 64 * 1024 * 1024
"""Spark SQL reads and writes so much in a second or two, which no JVM takes to optimize its code."""


class EngineName(StrEnum):
    """What runs the tasks."""

    SPARK = "spark"
    LOCAL = "local"


class WriterName(StrEnum):
    """What writes Parquet files."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


class Via(StrEnum):
    """What reads from brokers for the Spark writer."""

    AUTO = "auto"
    NATIVE = "native"
    CONNECTOR = "connector"


class FollowChoice(NamedTuple):
    follow: Annotated[
        bool, typer.Option("--follow", help="Export new records as they arrive, until Ctrl-C or SIGTERM")
    ] = False
    interval: Annotated[str, typer.Option(metavar="TIME", help="Time between two rounds of --follow")] = "30s"
    min_offsets_per_trigger: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="--follow waits for at least so many offsets")
    ] = None
    max_trigger_delay: Annotated[
        str, typer.Option(metavar="TIME", help="--follow waits no longer than this")
    ] = "15m"
    max_offsets_per_trigger: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="--follow exports at most so many offsets at a time"),
    ] = None

    def options(self) -> FollowOptions:
        from kcli.spark.export.options import FollowOptions
        from kcli.spark.filters.timestamps import parse_duration_ms
        from kcli.spark.source.ranges.trigger_limits import TriggerLimits

        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise UsageError(
                f"`--min-offsets-per-trigger` is higher than `--max-offsets-per-trigger`: {least} > {most}"
            )
        interval_ms = parse_duration_ms(self.interval, "--interval")
        delay_ms = parse_duration_ms(self.max_trigger_delay, "--max-trigger-delay")
        if interval_ms < 0 or delay_ms < 0:
            raise UsageError("`--interval` and `--max-trigger-delay` cannot be negative")
        return FollowOptions(interval_s=interval_ms / 1000, triggers=TriggerLimits(most, least, delay_ms))

    def check(self) -> None:
        """Raise `UsageError` if an option needs `--follow` and it is not given."""
        if self.follow:
            return
        usual = FollowChoice()
        for option, given, default in (
            ("--interval", self.interval, usual.interval),
            ("--min-offsets-per-trigger", self.min_offsets_per_trigger, None),
            ("--max-trigger-delay", self.max_trigger_delay, usual.max_trigger_delay),
            ("--max-offsets-per-trigger", self.max_offsets_per_trigger, None),
        ):
            if given != default:
                raise UsageError(f"`{option}` has no meaning without `--follow`")


class EngineChoice(NamedTuple):
    """What runs the tasks, and into how many the work is cut."""

    engine: Annotated[
        EngineName,
        typer.Option(help="What runs the tasks: Spark, or processes of this machine without Spark and Java"),
    ] = EngineName.SPARK
    writer: Annotated[
        WriterName,
        typer.Option(
            help="What writes the files. arrow: each task itself; spark: Spark SQL, for "
            "--select and any --where"
        ),
    ] = WriterName.AUTO
    via: Annotated[
        Via,
        typer.Option(help="With --writer spark: read with kcli (native), or with Spark's Kafka connector"),
    ] = Via.AUTO
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master: local[4], spark://host:7077, yarn …  [default: local]"
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A Spark property (repeatable)", show_default=False),
    ] = None
    min_partitions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Split the work into at least about so many tasks")
    ] = None
    max_records_per_partition: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most so many offsets per task")
    ] = None

    @property
    def is_local(self) -> bool:
        """Return whether the tasks run in processes of this machine, without Spark."""
        return self.engine is EngineName.LOCAL

    def slots(self) -> int:
        """Return how many tasks run at the same time on this machine; a cluster tells only when asked."""
        match = LOCAL_MASTER.fullmatch(self.master or "local[*]")
        cores = len(os.sched_getaffinity(0))
        if match is None or match[1] == "*":
            return cores
        return int(match[1] or 1) or cores

    def check(self) -> None:
        """Raise `UsageError` if an option does not fit `--engine local`."""
        if not self.is_local:
            return
        if self.conf:
            raise UsageError("`--conf` has no meaning with `--engine local`")
        if self.master is not None and LOCAL_MASTER.fullmatch(self.master) is None:
            raise UsageError(f"`--engine local` cannot run on {self.master}", hint="--master local[4]")

    def open(
        self, *, by_sql: WriteOptions | None = None, read_bytes: int | None = None
    ) -> AbstractContextManager[Engine]:
        """Return an engine that is closed with the block.

        `by_sql` is what Spark SQL computes and writes, None if the tasks write. `read_bytes` is about how
        much it will read, None if that is unknown; with 0 Spark starts with the first task, and maybe never.
        """
        if self.is_local:
            from kcli.spark.engines.local_engine import LocalEngine

            return closing(LocalEngine(self.slots()))
        is_brief = by_sql is None or (read_bytes is not None and read_bytes <= BRIEF_BYTES)
        if read_bytes == 0:
            return LateEngine(lambda: self._spark(by_sql, is_brief=is_brief), self.slots())
        return self._spark(by_sql, is_brief=is_brief)

    @contextmanager
    def _spark(self, by_sql: WriteOptions | None, *, is_brief: bool) -> Iterator[Engine]:
        """Open the running Spark session, or a new one."""
        from kcli.spark.engines.session import SessionSettings, open_session

        settings = SessionSettings(
            master=self.master,
            conf=parse_properties(self.conf, "--conf"),
            app_name="kcli spark-export",
            is_brief=is_brief,
        )
        with open_session(settings) as session:
            if by_sql is None:
                yield session.engine()
            else:
                via_connector = None if self.via is Via.AUTO else self.via is Via.CONNECTOR
                engine = session.sql_engine(via_connector=via_connector)
                engine.check(by_sql)
                yield engine


class LateEngine:
    """Opens another engine when the first task comes."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Engine]], slots: int) -> None:
        self._open = opened
        self._stack = ExitStack()
        self._engine: Engine | None = None
        self.slots = slots

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        if tasks and self._engine is None:
            self._engine = self._stack.enter_context(self._open())
        if self._engine is not None:
            self._engine.run(tasks, on_done, progress)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ActionChoice(NamedTuple):
    """What to do instead of an export."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show offsets, bytes and files; write nothing")
    ] = False
    list_files: Annotated[
        bool, typer.Option("--list", help="List the committed files of the target, and exit")
    ] = False
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Check that the committed files exist and are byte for byte as written: by "
            "checksums or, in an object store, by reading all pages; exit 3 if not",
        ),
    ] = False
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild a lost commit log from the files' footers, and exit")
    ] = False

    def name(self) -> str:
        """Return the action, `export` if no option names another; raise `UsageError` if several do."""
        names = ("dry-run", "list", "verify", "repair")
        given = [name for name, is_given in zip(names, self, strict=True) if is_given]
        if len(given) > 1:
            raise UsageError(f"`--{given[0]}` and `--{given[1]}` exclude each other")
        return given[0] if given else "export"
