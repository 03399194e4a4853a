"""`broker start --sasl --user`: clients log in by every mechanism, after restarts too."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.kcli_broker import KcliBroker

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def gets_in(broker: KcliBroker, mechanism: str, user: str, password: str) -> bool:
    """Return whether a client on librdkafka can log in."""
    config = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "reconnect.backoff.ms": 1000,
        "log_level": 0,
    }
    told: list[object] = []
    client = AdminClient({**config, "error_cb": told.append})
    try:
        client.list_topics(timeout=1)
    except KafkaException:
        client.poll(30)
        assert "invalid credentials" in str(told)
        return False
    return True


def start(directory: Path, *users: str, nodes: int = 1) -> KcliBroker:
    words = [word for user in users for word in ("--user", user)]
    return KcliBroker(directory, arguments=("--nodes", str(nodes), "--sasl", *words)).start()


def test_users_of_a_start_log_in_by_every_mechanism(tmp_path: Path) -> None:
    first = start(tmp_path, "alice=a-s3cret", "bob=b-s3cret,mechanism=SCRAM-SHA-512", nodes=2)
    with closing(first):
        assert " listeners SASL_PLAINTEXT://127.0.0.1:" in first.ready_line
        assert all(gets_in(first, mechanism, "alice", "a-s3cret") for mechanism in MECHANISMS)
        assert [gets_in(first, mechanism, "bob", "b-s3cret") for mechanism in MECHANISMS] == [
            False,
            False,
            True,
        ]
        assert first.stop() == 0
    log = first.messages()
    assert log.count("has a new credential for") == 3
    second = start(tmp_path, "alice=new-s3cret")
    with closing(second):
        assert all(gets_in(second, mechanism, "alice", "new-s3cret") for mechanism in MECHANISMS)
        assert gets_in(second, "SCRAM-SHA-512", "bob", "b-s3cret")
        assert not gets_in(second, "SCRAM-SHA-256", "alice", "a-s3cret")
        assert second.stop() == 0
    assert second.messages().removeprefix(log).count("has a new credential for") == 2
    assert "s3cret" not in second.messages()
