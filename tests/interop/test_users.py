"""Users with SCRAM credentials: kcli and Apache Kafka's tool make them, foreign clients log in as they."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.apache_kafka import ApacheKafka
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.guarded_brokers import GuardedApache

pytestmark = pytest.mark.interop

Run = Callable[..., "Finished"]
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECONDS = 20


class Place(NamedTuple):
    """A broker: PLAINTEXT lets everybody in, `sasl` users of SCRAM, over TLS if there is an `authority`."""

    bootstrap: str
    sasl: str
    authority: str = ""


def login(place: Place, mechanism: str, password: str, user: str = "alice") -> str | None:
    """Log in with librdkafka; return the name of its error, None if it got metadata."""
    errors: list[str] = []
    secure = {"security.protocol": "SASL_SSL", "ssl.ca.location": place.authority}
    client = AdminClient(
        {
            "bootstrap.servers": place.sasl,
            **(secure if place.authority else {"security.protocol": "SASL_PLAINTEXT"}),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
            "error_cb": lambda error: errors.append(error.name()),
        }
    )
    ends = time.monotonic() + SECONDS
    while not errors and time.monotonic() < ends:
        try:
            client.list_topics(timeout=0.5)
        except confluent_kafka.KafkaException:
            client.poll(0)
        else:
            return None
    return errors[0] if errors else "no answer"


SETTINGS = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)}


@pytest.fixture(scope="module")
def kcli_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    plain, sasl = (f"127.0.0.1:{port}" for port in free_ports(2))
    listeners = {"listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}"}
    broker = KcliBroker(tmp_path_factory.mktemp("users"), settings=SETTINGS | listeners)
    broker.start()
    yield Place(plain, sasl)
    assert broker.stop() == 0


@pytest.fixture(scope="module")
def apache_place(guarded_apache: GuardedApache) -> Place:
    doors = guarded_apache.doors
    authority = str(doors.stores.path("ca.pem"))
    return Place(guarded_apache.bootstrap, doors.address("SASL_SSL"), authority)


@pytest.fixture(params=["kcli_place", "apache_place"])
def place(request: pytest.FixtureRequest, kcli: Run, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Each of the two brokers, the one that `kcli` talks to."""
    found: Place = request.getfixturevalue(request.param)
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", found.bootstrap)
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_is_created_changed_and_deleted(mechanism: str, place: Place, kcli: Run) -> None:
    name = f"user,{mechanism}=1"
    create = ("users", "create", name, "--mechanism", mechanism, "--iterations", "4096")
    assert kcli(*create, input=b"first\n").out == f"created user {name}: {mechanism}\n"
    assert login(place, mechanism, "first", name) is None
    assert login(place, mechanism, "second", name) == "_AUTHENTICATION"
    assert kcli(*create, input=b"second\r\n").exit_code == 0
    assert login(place, mechanism, "second", name) is None
    assert login(place, mechanism, "first", name) == "_AUTHENTICATION"
    assert kcli("users", "list", name).out == (
        f"SCRAM credential configs for user-principal '{name}' are {mechanism}=iterations=4096\n"
    )
    assert json.loads(kcli("users", "list", name, "-o", "json").out)["users"] == [
        {"user": name, "credentials": {mechanism: 4096}}
    ]
    assert kcli("users", "delete", name).out == f"deleted user {name}: {mechanism}\n"
    assert login(place, mechanism, "second", name) == "_AUTHENTICATION"
    gone = kcli("users", "list", name)
    assert gone.exit_code == 1
    assert gone.err.startswith(f"error: cannot describe user `{name}`: ")


def test_what_no_user_can_be_is_refused(place: Place, kcli: Run) -> None:
    for arguments, password, message in (
        (("alice",), b"", "the password is empty"),
        (("alice",), b"\n", "the password is empty"),
        (("",), b"secret\n", "the user name is empty"),
        (("alice", "--mechanism", "PLAIN"), b"secret\n", "`--mechanism` cannot be PLAIN"),
        (("alice", "--password-file", "/nonexistent"), b"", "cannot read the password in `/nonexistent`"),
    ):
        refused = kcli("users", "create", *arguments, input=password)
        assert refused.exit_code == 2
        assert refused.err.startswith(f"error: {message}")
    missing = kcli("users", "delete", "nobody")
    assert missing.exit_code == 1
    assert missing.err.startswith("error: cannot delete user `nobody`: ")


def test_users_of_the_original_tool_are_the_same(place: Place, kcli: Run, kafka_tool: KafkaTools) -> None:
    where = ("--bootstrap-server", place.bootstrap, "--entity-type", "users")
    for mechanism in MECHANISMS:
        added = f"{mechanism}=[iterations=5000,password=tool-pw]"
        done = kafka_tool("kafka-configs", *where, "--entity-name", "tool", "--alter", "--add-config", added)
        assert done.code == 0, done
        assert login(place, mechanism, "tool-pw", "tool") is None
    shown = kafka_tool("kafka-configs", *where, "--entity-name", "tool", "--describe")
    assert kcli("users", "list", "tool").out == shown.output
    deleted = kcli("users", "delete", "tool").out.strip().partition(": ")
    assert (deleted[0], sorted(deleted[2].split(", "))) == ("deleted user tool", [*MECHANISMS])


def test_users_survive_a_kill_and_go_to_apache_kafka_and_back(
    kcli: Run, kafka_tool: KafkaTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sasl = (f"127.0.0.1:{port}" for port in free_ports(2))
    listeners = {"listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}"}
    broker = KcliBroker(tmp_path, settings=SETTINGS | listeners).start()
    try:
        monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", plain)
        for mechanism in MECHANISMS:
            made = kcli("users", "create", "alice", "--mechanism", mechanism, input=b"of-kcli\n")
            assert made.exit_code == 0, made
        broker.kill()
        broker.start()
        assert [login(Place(plain, sasl), mechanism, "of-kcli") for mechanism in MECHANISMS] == [None, None]
        assert broker.stop() == 0

        directory = tmp_path / "apache"
        directory.mkdir()
        port, controller, other = free_ports(3)
        apache = ApacheKafka(
            directory,
            kafka_tool,
            data=broker.node_directory,
            settings={
                **SETTINGS,
                **{
                    f"listener.name.sasl_plaintext.{name.lower()}.sasl.jaas.config": f"{MODULE} required;"
                    for name in MECHANISMS
                },
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{other},"
                f"CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{other}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
                "SASL_PLAINTEXT:SASL_PLAINTEXT",
            },
        )
        apache.port, apache.bootstrap = port, f"127.0.0.1:{port}"
        apache.start()
        try:
            there = f"127.0.0.1:{other}"
            assert [login(Place("", there), mechanism, "of-kcli") for mechanism in MECHANISMS] == [None, None]
            monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", apache.bootstrap)
            assert kcli("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256").exit_code == 0
            assert kcli("users", "create", "bob", input=b"of-apache\n").exit_code == 0
        finally:
            apache.stop()
        broker.start()
        assert login(Place(plain, sasl), "SCRAM-SHA-256", "of-kcli") == "_AUTHENTICATION"
        assert login(Place(plain, sasl), "SCRAM-SHA-512", "of-kcli") is None
        assert login(Place(plain, sasl), "SCRAM-SHA-512", "of-apache", "bob") is None
    finally:
        broker.close()
