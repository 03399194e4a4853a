"""One Spark session for all tests of this folder: a JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.spark.session import OpenSession, SessionSettings, open_session


@pytest.fixture(scope="session")
def spark_session() -> Iterator[OpenSession]:
    """A session of two cores, as a command would open it."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.python.filterPushdown.enabled": "true"}
    with open_session(SessionSettings(master="local[2, 4]", conf=conf, app_name="tests")) as session:
        yield session
