"""Spark and a guarded Apache Kafka: TLS and logins work in tasks, and Spark shows no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.support.guarded_brokers import PASSWORDS, STORE_PASSWORD
from tests.support.producing import create_topic, end_offsets, produce
from tests.support.records import Shape, generate
from tests.support.toolchain import INTEROP

if TYPE_CHECKING:
    from tests.support.guarded_brokers import GuardedApache

pytestmark = pytest.mark.interop

ROWS = 500
TIMEOUT_SECONDS = 300


def secrets_of(apache: GuardedApache) -> list[str]:
    """Return what nothing may show: passwords, and a line of the client's private key."""
    key = apache.doors.stores.path("client.pem").read_text().splitlines()[1]
    return [*PASSWORDS.values(), STORE_PASSWORD, key]


def texts_in(directory: Path) -> str:
    """Return the content of all files below a directory."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.fixture(scope="module")
def topic(guarded_apache: GuardedApache) -> str:
    """A topic with records."""
    create_topic(guarded_apache.bootstrap, "spark-secured", 2)
    # PLAINTEXT is a super user there.
    produce(guarded_apache.bootstrap, "spark-secured", generate(1, 1, ROWS, Shape()))
    return "spark-secured"


def all_of(apache: GuardedApache) -> dict[str, str]:
    """Return properties with every kind of secret: a login, and a key store with its password."""
    return {
        **apache.doors.properties("SASL_SSL"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(apache.doors.stores.path("client.p12")),
        "ssl.keystore.password": STORE_PASSWORD,
    }


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_an_export_shows_no_secret(
    guarded_apache: GuardedApache, topic: str, tmp_path: Path, engine: str
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in all_of(guarded_apache).items()))
    events, target = tmp_path / "events", tmp_path / "out"
    events.mkdir()
    arguments = ["spark-export", topic, "--to", target, "--engine", engine, "--command-config", properties]
    if engine == "spark":
        arguments += ["--master", "local[1]", "--writer", "spark", "--via", "native"]
        for name, value in (("enabled", "true"), ("compress", "false"), ("dir", events.as_uri())):
            arguments += ["--conf", f"spark.eventLog.{name}={value}"]
    finished = subprocess.run(
        [sys.executable, "-m", "kcli", *map(str, arguments)],
        capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert finished.returncode == 0, finished
    assert pq.read_table(target).num_rows == ROWS
    shown = finished.stdout + finished.stderr + texts_in(events)
    properties.unlink()
    shown += texts_in(tmp_path)
    assert (topic in shown, "SparkListenerApplicationEnd" in shown) == (True, engine == "spark")
    assert [secret for secret in secrets_of(guarded_apache) if secret in shown] == []


def test_a_frame_shows_no_secret(guarded_apache: GuardedApache, topic: str, tmp_path: Path) -> None:
    create_topic(guarded_apache.bootstrap, "spark-secured-copy", 1)
    properties = tmp_path / "properties.json"
    properties.write_text(json.dumps(all_of(guarded_apache)))
    events = tmp_path / "events"
    events.mkdir()
    finished = subprocess.run(
        [
            sys.executable, INTEROP / "python" / "secured_frames.py", properties, topic,
            "spark-secured-copy", events.as_uri(),
        ],
        capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert f"rows {ROWS}" in finished.stdout
    assert end_offsets(guarded_apache.bootstrap, "spark-secured-copy") == {0: (0, ROWS)}
    shown = finished.stdout + finished.stderr + texts_in(events)
    assert "Physical Plan" in shown
    assert [secret for secret in secrets_of(guarded_apache) if secret in shown] == []
