"""The Spark session of a command: an existing one, or one with its own JVM.

An existing session (a notebook, `spark-submit`, Spark Connect) is used and left running. Otherwise a JVM is
started with the Java that `kcli.spark.engines.java` finds. The output of the JVM and its Python workers goes
to a log file and never to the terminal; a part is shown if starting fails, and the file is removed on
success.

pyspark can end its JVM only once it is connected to it, and does not show the process before. A JVM that
loses its parent earlier does not end: it cannot write its port, because the directory for it is gone, and
never looks at its input. Hence `JvmLaunches`, which keeps the processes, and `uninterrupted`: a call into the
JVM that is cut off leaves a broken connection and prints tracebacks.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.errors import KcliError, UsageError, install_hint
from kcli.forensics.ranges.worker_pool import available_processors
from kcli.spark.engines.java import find_java, home_for_spark
from kcli.spark.engines.session_log import SessionLog
from kcli.spark.export.stop_request import stop_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kcli.spark.engines.sql_engine import SqlEngine
    from kcli.spark.export.engine import Engine

Thing = TypeVar("Thing")


@contextmanager
def uninterrupted(make: Callable[[], Thing], end: Callable[[Thing], None]) -> Iterator[Thing]:
    """Make something for the block, and end it afterwards; a signal does not interrupt the two.

    The first SIGINT, SIGTERM or SIGHUP during `make` or `end` raises `KeyboardInterrupt` when it has
    returned. A second one raises it inside at once; the function must then clean up.
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


_CUT_OFF = "while sending command."
"""How py4j's traceback begins when Ctrl-C or the end of the JVM cuts off a call."""


class JvmLaunches:
    """The started processes, each the leader of a process group."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[Any]] = []

    def kill(self) -> None:
        """Kill them and the processes that they started."""
        for process in self.processes:
            if process.poll() is None:
                # It may end meanwhile, or may not be a leader yet.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()


@contextmanager
def jvm_launches(java_gateway: Any) -> Iterator[JvmLaunches]:  # noqa: ANN401  # a module
    """Record the JVMs that pyspark starts during the block; `java_gateway` is its module."""
    launches = JvmLaunches()
    start = java_gateway.Popen

    def started(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401  # Popen's
        process: subprocess.Popen[Any] = start(*arguments, **options)
        launches.processes.append(process)
        return process

    java_gateway.Popen = started
    try:
        yield launches
    finally:
        java_gateway.Popen = start


@contextmanager
def py4j_silenced() -> Iterator[None]:
    """Keep py4j from printing tracebacks of errors that it also raises."""
    root = logging.getLogger()

    def is_of_others(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith(_CUT_OFF)

    root.addFilter(is_of_others)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)


OLDEST_PYSPARK = (4, 0)
"""The first version with data sources in Python; `datasource.pyspark_version` has what came later."""
OLDEST_WITH_SQL = (4, 2)
"""The first version whose sinks in Python take Arrow batches."""

_STOP_SECONDS = 20

_LOCAL_DEFAULTS = {"spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
_BRIEF_DEFAULTS = {
    # Its code runs for seconds: full optimization costs more than it gains, a third of a short export.
    "spark.driver.extraJavaOptions": (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
}
_DEFAULTS = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    master: str | None = None
    """The master URL; by default all cores of this machine, with up to four attempts per task."""
    conf: Mapping[str, str] = field(default_factory=dict)
    app_name: str = "kcli"
    is_brief: bool = False
    """Whether the JVM of a local session handles few rows or none, and ends before optimizing pays off."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    spark: SparkSession
    is_ours: bool
    log: SessionLog | None = None
    """The log of a JVM that was started for it."""

    @property
    def context(self) -> SparkContext | None:
        from pyspark.sql import is_remote

        return None if is_remote() else self.spark.sparkContext

    def engine(self) -> Engine:
        context = self.context
        if context is None:
            from kcli.spark.engines.frame_engine import FrameEngine

            return FrameEngine(self.spark)
        from kcli.spark.engines.spark_engine import SparkEngine

        return SparkEngine(context, self.log)

    def sql_engine(self, *, via_connector: bool | None = False) -> SqlEngine:
        check_pyspark(OLDEST_WITH_SQL, "`--writer spark`: pyspark")
        from kcli.spark.engines.sql_engine import SqlEngine

        return SqlEngine(self.spark, self.engine(), self.log, via_connector=via_connector)


@contextmanager
def open_session(
    settings: SessionSettings, *, environment: MutableMapping[str, str] = os.environ
) -> Iterator[OpenSession]:
    """Open the existing session, or a new one for the block; raise `KcliError`."""
    check_pyspark()
    existing = _existing_session(settings, environment)
    if existing is not None:
        yield existing
        return
    log = SessionLog()
    try:
        with py4j_silenced(), uninterrupted(partial(_start, settings, environment, log), stop) as session:
            yield session
    except (KcliError, KeyboardInterrupt) as error:
        # The log stays if the error's hint names it, and if the error is unexpected.
        if str(log.path) not in (getattr(error, "hint", None) or ""):
            log.remove()
        raise
    log.remove()


def check_pyspark(oldest: tuple[int, int] = OLDEST_PYSPARK, what: str = "pyspark") -> None:
    """Raise `KcliError` unless pyspark is installed and as new as `what` needs."""
    hint = f"{install_hint('spark')}; `--engine local` exports without Spark"
    try:
        import pyspark
    except ImportError as error:
        raise KcliError("pyspark is not installed", hint=hint) from error
    numbers = tuple(int(number) for number in re.findall(r"\d+", pyspark.__version__)[:2])
    if numbers < oldest:
        wanted = ".".join(map(str, oldest))
        raise KcliError(f"{what} {wanted} or newer is needed: {pyspark.__version__} is installed", hint=hint)


def spark_conf(settings: SessionSettings, *, cores: int) -> dict[str, str]:
    """Return the configuration of a session; the user's properties override all defaults."""
    given = dict(settings.conf)
    for name in given:
        if not name.startswith("spark."):
            raise UsageError(f"invalid Spark property: {name}", hint="they begin with `spark.`")
    # Plain local[n] never repeats a task.
    master = settings.master or given.get("spark.master") or f"local[{cores}, 4]"
    conf = {"spark.app.name": settings.app_name, **_DEFAULTS}
    if master.startswith("local"):
        conf |= _LOCAL_DEFAULTS | (_BRIEF_DEFAULTS if settings.is_brief else {})
    return conf | given | {"spark.master": master}


def _existing_session(settings: SessionSettings, environment: Mapping[str, str]) -> OpenSession | None:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and "SPARK_REMOTE" in environment:
        active = SparkSession.builder.config(map=dict(settings.conf)).getOrCreate()
    if active is not None:
        return OpenSession(active, is_ours=False)
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return None
    # spark-submit: the JVM is running, and knows the master and its configuration.
    builder = SparkSession.builder.config(map=_DEFAULTS | dict(settings.conf))
    if settings.master:
        builder = builder.master(settings.master)
    with _handlers_kept():
        return OpenSession(builder.getOrCreate(), is_ours=False)


def _start(settings: SessionSettings, environment: MutableMapping[str, str], log: SessionLog) -> OpenSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    values = spark_conf(settings, cores=available_processors())
    _prepare(environment, values)
    conf = SparkConf(loadDefaults=False)
    for name, value in values.items():
        conf.set(name, value)
    with jvm_launches(java_gateway) as launches:
        try:
            with log.opened() as output:
                # It has its own process group: Ctrl-C at the terminal reaches kcli, not the workers.
                popen = {"stdout": output, "stderr": output, "process_group": 0}
                gateway = java_gateway.launch_gateway(conf, popen_kwargs=popen)
            with _handlers_kept():
                context = SparkContext(gateway=gateway, conf=conf)
            context.setLogLevel("WARN")
            _silence_query_errors()
            return OpenSession(SparkSession(context), is_ours=True, log=log)
        except (PySparkException, Py4JError, OSError) as error:
            _end_jvm()
            launches.kill()
            raise log.failure("Spark did not start", error) from error
        except BaseException:
            # A second Ctrl-C.
            _forget_jvm()
            launches.kill()
            raise


def _prepare(environment: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Set the environment variables of a JVM and its workers."""
    environment["JAVA_HOME"] = str(home_for_spark(find_java(environment)))
    # Otherwise workers run the `python3` of the PATH, while planning runs in this interpreter.
    environment.setdefault("PYSPARK_PYTHON", values.get("spark.pyspark.python", sys.executable))
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if values["spark.master"].startswith("local"):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _silence_query_errors() -> None:
    """Keep pyspark from printing an error in a query, with two tracebacks, before raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def stop(session: OpenSession) -> None:
    """End a session that kcli started, and its JVM."""
    if not session.is_ours:
        return
    from py4j.protocol import Py4JError

    # The JVM may be dead already.
    with suppress(Py4JError, OSError):
        session.spark.stop()
    _end_jvm()


def _forget_jvm() -> Any:  # noqa: ANN401  # py4j has no types
    """Return pyspark's gateway, None without one, and make pyspark forget it."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    return gateway


def _end_jvm() -> None:
    """End the JVM that this process started, so that the next session gets its own configuration."""
    gateway = _forget_jvm()
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        # The JVM ends when its input does.
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restore the handler of SIGINT, which a new SparkContext replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
