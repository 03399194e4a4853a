"""Spark and a guarded Apache Kafka: TLS and logins work in tasks, and Spark shows no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kcli.client.config import ClientConfig
from kcli.client.network.bootstrap import AuthenticationFailed
from kcli.client.network.metadata import Node
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.client_security import ClientSecurity
from kcli.spark.source.brokers.fetch_connection import FetchConnection, fetch_request, partition_data
from tests.support.guarded_brokers import PASSWORDS, SESSION_SECONDS, STORE_PASSWORD
from tests.support.producing import create_topic, end_offsets, produce
from tests.support.records import Shape, generate
from tests.support.toolchain import INTEROP

if TYPE_CHECKING:
    from kcli.security.sasl_client import SaslClient
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


def fetching(apache: GuardedApache, listener: str) -> FetchConnection:
    """Return a task's connection to a listener."""
    host, _, port = apache.doors.address(listener).rpartition(":")
    config = ClientConfig.from_properties(apache.doors.properties(listener))
    return FetchConnection(Node(1, host, int(port)), config, 12, buffer_bytes=1024 * 1024)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_task_fetches_from_a_listener_with_logins(
    guarded_apache: GuardedApache, topic: str, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: list[float] = []
    make = ClientSecurity.sasl_client

    def counted(security: ClientSecurity) -> SaslClient:
        logins.append(time.monotonic())
        return make(security)

    partition = TopicPartition(topic, 1)
    request = fetch_request(partition, ZERO_UUID, 0, max_bytes=512 * 1024, max_wait_ms=50)
    with monkeypatch.context() as patched:
        patched.setattr(ClientSecurity, "sasl_client", counted)
        with closing(fetching(guarded_apache, listener)) as connection:
            logins[:-1] = []
            # Only one of the listeners ends sessions.
            wanted, begin = 2 if listener == "SASL_PLAINTEXT" else 1, time.monotonic()
            while True:
                connection.send(request)
                data = partition_data(connection.receive(), partition)
                assert data.records is not None
                assert len(data.records) > 100_000
                if len(logins) >= wanted:
                    break
                assert time.monotonic() - begin < 5 * SESSION_SECONDS


@pytest.mark.parametrize(
    ("listener", "message"),
    [
        ("EXPIRED", "has expired"),
        ("SASL_SSL", "authentication failed as admin"),
    ],
)
def test_a_task_tells_what_refuses_it(
    guarded_apache: GuardedApache, listener: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASSWORDS, "admin", "wrong")
    with pytest.raises(AuthenticationFailed, match=message):
        fetching(guarded_apache, listener)
