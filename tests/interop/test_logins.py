"""Clients of others log in by PLAIN: they are who they say, and are refused where they are not."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kcli.security.jaas import PLAIN_MODULE
from tests.support.apache_kafka import java_command
from tests.support.login_broker import CAROL, LISTENERS, PASSWORDS, SESSION_MS, LoginBroker
from tests.support.toolchain import java_classes, need
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

LINES = [f"line {number}" for number in range(20)]
REFUSED = "login by PLAIN failed: invalid credentials"
DAVE = "dave-s3cret"
SECRETS = [*PASSWORDS.values(), CAROL, DAVE]
RENEWED_MS = 5 * SESSION_MS // 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    broker = LoginBroker(tmp_path_factory.mktemp("logins"))
    with closing(broker):
        broker.start()
        admin = AdminClient(broker.librdkafka("OPEN"))
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
        yield broker
        assert broker.stop() == 0
        messages = broker.messages()
        assert "Traceback" not in messages
        assert not any(secret in messages for secret in SECRETS)


def kcat(config: dict[str, str], *words: str, lines: list[str] | None = None) -> list[str]:
    """Run kcat to its end; the lines that it prints."""
    need("kcat")
    options = [word for name, value in config.items() for word in ("-X", f"{name}={value}")]
    finished = subprocess.run(
        ["kcat", *words, *options],
        input="\n".join(lines or []),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.splitlines()


def java_login(version: str, properties: Path, millis: int = 0) -> str:
    """Run a Java client; what it says at its end."""
    classes = java_classes("clients-0.10", "LoginClient")
    command = java_command(f"clients-{version}", "LoginClient", "-Xmx128m", classes=classes)
    finished = subprocess.run(
        [*command, str(properties), "t", str(millis)],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return finished.stdout.splitlines()[-1]


def test_the_ready_line_and_the_status_tell_the_security_protocols(broker: LoginBroker) -> None:
    told = ",".join(f"{name}:{protocol}://{broker.address(name)}" for name, protocol in LISTENERS.items())
    assert broker.ready_line.endswith(f" listeners {told}")
    command = [sys.executable, "-m", "kcli", "broker", "status", "--data-dir", str(broker.data)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.rstrip().endswith(f" listeners {told}")
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize("listener", LISTENERS)
def test_kcat_works_by_way_of_each_security_protocol(broker: LoginBroker, listener: str) -> None:
    config = broker.librdkafka(listener)
    kcat(config, "-P", "-t", listener, lines=LINES)
    assert kcat(config, "-C", "-t", listener, "-o", "beginning", "-e", "-q") == LINES


def test_who_logs_in_is_another_than_who_does_not(broker: LoginBroker) -> None:
    AdminClient(broker.librdkafka("OPEN")).list_topics("t", timeout=60)
    for listener in ("LOGIN", "SAFE"):
        topics = AdminClient(broker.librdkafka(listener, "bob")).list_topics("t", timeout=60).topics
        error = topics["t"].error
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "User:bob" in broker.messages()


@pytest.mark.parametrize(
    ("user", "password", "listener"),
    [
        ("alice", "wrong", "LOGIN"),
        ("alice", "wrong", "SAFE"),
        ("nobody", "x", "LOGIN"),
        ("carol", CAROL, "SAFE"),
    ],
)
def test_librdkafka_is_told_of_a_wrong_password(
    broker: LoginBroker, user: str, password: str, listener: str
) -> None:
    told: list[KafkaError] = []
    config = broker.librdkafka(listener, user, password)
    client = AdminClient({**config, "error_cb": told.append, "log_level": 0, "reconnect.backoff.ms": 1000})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.4)
    client.poll(30)
    assert any(error.code() == KafkaError._AUTHENTICATION and REFUSED in error.str() for error in told)


def test_a_user_of_one_listener_logs_in_there(broker: LoginBroker) -> None:
    assert "t" in AdminClient(broker.librdkafka("LOGIN", "carol", CAROL)).list_topics(timeout=60).topics


@pytest.mark.parametrize("version", ["0.10", "1.1", "2.8", "4.3"])
def test_java_logs_in(broker: LoginBroker, version: str, tmp_path: Path) -> None:
    properties = broker.java(tmp_path / "client.properties", "LOGIN")
    assert java_login(version, properties) == "sent 1"


@pytest.mark.parametrize("version", ["1.1", "4.3"])
def test_java_is_told_of_a_wrong_password(broker: LoginBroker, version: str, tmp_path: Path) -> None:
    properties = broker.java(tmp_path / "client.properties", "LOGIN", password="wrong")
    assert java_login(version, properties) == f"SaslAuthenticationException: {REFUSED}"


def test_an_old_java_client_does_not_get_in_with_a_wrong_password(
    broker: LoginBroker, tmp_path: Path
) -> None:
    waits = {"max_block_ms": "1500", "reconnect_backoff_ms": "500"}
    properties = broker.java(tmp_path / "client.properties", "LOGIN", password="wrong", **waits)
    assert java_login("0.10", properties).startswith("TimeoutException: ")


def test_java_is_told_which_mechanisms_there_are(broker: LoginBroker, tmp_path: Path) -> None:
    properties = broker.java(tmp_path / "client.properties", "LOGIN")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    text = properties.read_text().replace("=PLAIN\n", "=SCRAM-SHA-512\n").replace(PLAIN_MODULE, module)
    properties.write_text(text)
    said = java_login("4.3", properties)
    assert said.startswith("UnsupportedSaslMechanismException: ")
    assert said.endswith("enabled mechanisms are [PLAIN]")


def test_a_client_of_kerberos_is_told_that_there_is_only_plain(broker: LoginBroker) -> None:
    need("kcat")
    config = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.kinit.cmd": "true", "reconnect.backoff.ms": "2000"}
    options = [word for name, value in config.items() for word in ("-X", f"{name}={value}")]
    command = [
        "kcat",
        "-L",
        "-m",
        "1",
        "-b",
        broker.address("LOGIN"),
        "-X",
        "security.protocol=sasl_plaintext",
    ]
    finished = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    assert finished.returncode != 0
    assert "Unsupported SASL mechanism: broker's supported mechanisms: PLAIN" in finished.stderr
    assert "listener `LOGIN` cannot speak GSSAPI, only PLAIN" in broker.messages()


def test_java_renews_its_sessions_and_goes_on(broker: LoginBroker, tmp_path: Path) -> None:
    properties = broker.java(tmp_path / "client.properties", "SHORT", retries="0")
    before = broker.messages().count("is over")
    assert java_login("4.3", properties, RENEWED_MS).startswith("sent ")
    assert broker.messages().count("is over") == before


def test_an_old_java_client_is_cut_at_the_end_of_its_session_and_comes_again(
    broker: LoginBroker, tmp_path: Path
) -> None:
    properties = broker.java(tmp_path / "client.properties", "SHORT", retries="5")
    before = broker.messages().count("the session of User:alice is over")
    assert java_login("0.10", properties, RENEWED_MS).startswith("sent ")
    # It sends for more than two sessions, of which a slow machine may spend one on connecting.
    assert broker.messages().count("the session of User:alice is over") > before


def test_users_change_while_the_broker_runs(broker: LoginBroker) -> None:
    name = "listener.name.login.plain.sasl.jaas.config"
    admin = AdminClient(broker.librdkafka("OPEN"))
    users = {**PASSWORDS, "carol": CAROL, "dave": DAVE}
    options = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    entry = ConfigEntry(
        name, f"{PLAIN_MODULE} required {options};", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)

    def dave_is_in() -> bool:
        client = AdminClient(broker.librdkafka("LOGIN", "dave", users["dave"]))
        return client.list_topics("t", timeout=5).topics["t"].error is not None

    eventually(dave_is_in, "a login of a new user")
    shown = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
    for future in shown.values():
        values = {each.name: each.value for each in future.result(60).values()}
        assert values[name] is None
        assert not any(secret in str(values) for secret in users.values())


def test_passwords_of_the_environment_are_on_no_command_line(broker: LoginBroker) -> None:
    with open(f"/proc/{broker.process.pid}/cmdline", encoding="utf-8") as file:
        words = file.read()
    assert PLAIN_MODULE in words
    assert not any(password in words for password in PASSWORDS.values())
