"""The session of a command: its configuration, its environment, its log, and what is said when it fails."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import ModuleType

import pytest

from kcli.errors import KcliError, UsageError
from kcli.spark.engines.session import OpenSession, SessionSettings, check_pyspark, open_session, spark_conf
from kcli.spark.engines.session_log import SessionLog, telling_line
from tests.support.waiting import eventually


def test_a_local_session_retries_tasks_and_shows_nothing() -> None:
    assert spark_conf(SessionSettings(), cores=3) == {
        "spark.app.name": "kcli",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.master": "local[3, 4]",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def test_what_the_user_says_is_above_every_default() -> None:
    settings = SessionSettings(conf={"spark.driver.memory": "4g", "spark.master": "local[1]"})
    conf = spark_conf(settings, cores=3)
    assert (conf["spark.driver.memory"], conf["spark.master"]) == ("4g", "local[1]")
    assert spark_conf(SessionSettings(master="local[7]"), cores=3)["spark.master"] == "local[7]"


def test_a_cluster_is_not_told_to_be_on_loopback() -> None:
    conf = spark_conf(SessionSettings(master="spark://host:7077"), cores=3)
    assert "spark.driver.host" not in conf
    assert "spark.driver.memory" not in conf


def test_a_brief_jvm_does_not_optimize() -> None:
    name = "spark.driver.extraJavaOptions"
    assert "TieredStopAtLevel=1" in spark_conf(SessionSettings(is_brief=True), cores=1)[name]
    given = SessionSettings(is_brief=True, conf={name: "-ea"})
    assert spark_conf(given, cores=1)[name] == "-ea"
    assert name not in spark_conf(SessionSettings(is_brief=True, master="spark://host:7077"), cores=1)


def test_a_property_that_is_not_of_spark_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        spark_conf(SessionSettings(conf={"driver.memory": "4g"}), cores=1)
    assert caught.value.message == "invalid Spark property: driver.memory"


def test_without_pyspark_one_line_names_the_extra_and_the_other_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(KcliError) as caught:
        check_pyspark()
    assert caught.value.message == "pyspark is not installed"
    libraries = "'pyspark>=4.0' 'pyarrow>=18' 'numpy>=1.26'"
    assert caught.value.hint == f"pip install {libraries}; `--engine local` exports without Spark"


@pytest.mark.parametrize(
    ("version", "is_new_enough"), [("3.5.3", False), ("4.0.0", True), ("5.0.0.dev1", True)]
)
def test_an_old_pyspark_is_refused(
    version: str, is_new_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("pyspark")
    module.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)
    if is_new_enough:
        check_pyspark()
    else:
        with pytest.raises(KcliError, match=r"pyspark 4\.0 or newer is needed: 3\.5\.3 is installed"):
            check_pyspark()


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], None),
        (["Error occurred during initialization of VM", "Too small maximum heap", ""],
         "Too small maximum heap"),
        (
            [
                'Exception in thread "main" org.apache.spark.SparkException: Master must start with yarn',
                "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1081)",
            ],
            "SparkException: Master must start with yarn",
        ),
        (["x", "Caused by: java.net.ConnectException: Connection refused", "\t... 3 more"],
         "ConnectException: Connection refused"),
    ],
)  # fmt: skip
def test_one_line_of_a_log_tells_why(lines: list[str], told: str | None) -> None:
    assert telling_line(lines) == told


def test_a_failure_shows_where_the_log_is_and_how_it_ends() -> None:
    log = SessionLog()
    try:
        with log.opened() as file:
            assert isinstance(file, io.BufferedWriter)
            file.write(b"".join(b"line %d\n" % number for number in range(30)))
        error = log.failure("Spark did not start", RuntimeError("gateway"))
    finally:
        log.remove()
    assert error.message == "Spark did not start: line 29"
    assert error.hint == f"see {log.path}"
    assert error.__notes__ == [f"line {number}" for number in range(10, 30)]
    assert not log.path.exists()


def test_a_session_that_is_there_is_used_and_left_running(spark_session: OpenSession) -> None:
    with open_session(SessionSettings(master="local[9]")) as again:
        assert again.spark is spark_session.spark
        assert not again.is_ours
    assert spark_session.spark.range(1).count() == 1


def test_workers_run_this_python_and_the_session_has_its_settings(spark_session: OpenSession) -> None:
    context = spark_session.context
    assert context is not None
    assert context.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
    assert context.master == "local[2, 4]"
    assert spark_session.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert os.environ["SPARK_LOCAL_IP"]


def test_ctrl_c_stays_with_whoever_had_it(spark_session: OpenSession) -> None:
    assert spark_session.is_ours
    handler = signal.getsignal(signal.SIGINT)
    # Who started the tests in the background had it ignored from the beginning.
    assert handler in (signal.default_int_handler, signal.SIG_IGN)


def test_nothing_of_the_jvm_reaches_the_terminal(
    spark_session: OpenSession, capfd: pytest.CaptureFixture[str]
) -> None:
    context = spark_session.context
    assert context is not None
    context.parallelize([0], 1).foreach(lambda _: print("from a worker", file=sys.stderr, flush=True))
    assert spark_session.log is not None
    log = spark_session.log.path
    eventually(lambda: "from a worker" in log.read_text(errors="replace"), "what a worker prints")
    assert capfd.readouterr() == ("", "")
