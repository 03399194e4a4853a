"""One Spark session for all tests of this folder: a JVM takes seconds to start."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from kcli.spark.engines.session import OpenSession, SessionSettings, open_session
from tests.support.kcli_broker import KcliBroker
from tests.support.spark_cluster import QUICK_JAVA

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSession]:
    """A session of two cores, as a command would open it.

    Its workers find the fakes of tests, and the module `pyspark_kcli` where an installed kcli has it.
    """
    site = tmp_path_factory.mktemp("site")
    (site / "pyspark_kcli").symlink_to(ROOT / "kcli" / "spark" / "pyspark_kcli")
    conf = {
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
            # What the session sets is put back when it ends.
            patch.setenv(name, os.environ.get(name, ""))
            if not os.environ[name]:
                del os.environ[name]
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(site)]))
        # pytest adds its handlers to loggers that do not propagate, and PySpark's would make them write JSON,
        # also in the tests that come after.
        patch.setattr(PySparkLogger, "addHandler", logging.Logger.addHandler)
        with open_session(SessionSettings(master="local[2, 4]", conf=conf, app_name="tests")) as session:
            yield session


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A running broker; readers of its directory know soon how much of it counts."""
    settings = {"replica.high.watermark.checkpoint.interval.ms": "100"}
    running = KcliBroker(tmp_path_factory.mktemp("broker"), settings=settings)
    try:
        yield running.start()
    finally:
        running.close()
