"""Every client at every kind of listener: it produces, reads in a group, and says at once if it may not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kcli.security.jaas import MODULES
from tests.support.apache_kafka import java_command
from tests.support.guarded_brokers import LISTENERS, PASSWORDS, STORE_PASSWORD
from tests.support.toolchain import INTEROP, go_program, java_classes, need, node_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.guarded_brokers import GuardedKcli

pytestmark = pytest.mark.interop

REPOSITORY = INTEROP.parent.parent
TOPIC = "secured"
PROGRAM_SECONDS = 240
AT_ONCE_SECONDS = 8.0
"""A wrong password is told in that time, and not after a time-out of a minute."""

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"


class Cell(NamedTuple):
    """A listener of the guarded broker, and how to log in there."""

    name: str
    listener: str
    mechanism: str = ""
    password: str = PASSWORDS["admin"]

    def json(self, broker: GuardedKcli) -> dict[str, Any]:
        """Return what the programs that are not Java take."""
        stores = broker.doors.stores
        return {
            "name": self.name,
            "bootstrap": broker.doors.address(self.listener),
            "topic": TOPIC,
            "protocol": LISTENERS.get(self.listener, "PLAINTEXT"),
            "mechanism": self.mechanism,
            "user": "admin",
            "password": self.password,
            "ca": str(stores.path("ca.pem")),
            "key": str(stores.path("client.pem")) if self.listener == "MTLS" else "",
        }

    def properties(self, broker: GuardedKcli, directory: Path) -> Path:
        """Write what Java of any age takes: stores are JKS."""
        stores = broker.doors.stores
        protocol = LISTENERS.get(self.listener, "PLAINTEXT")
        lines = {"bootstrap.servers": broker.doors.address(self.listener), "security.protocol": protocol}
        if "SSL" in protocol:
            lines |= {"ssl.truststore.location": str(stores.path("ca.jks"))}
            lines |= {"ssl.truststore.password": STORE_PASSWORD}
        if self.listener == "MTLS":
            lines |= {"ssl.keystore.location": str(stores.path("client.jks"))}
            lines |= {"ssl.keystore.password": STORE_PASSWORD, "ssl.key.password": STORE_PASSWORD}
        if self.mechanism:
            module = MODULES[self.mechanism]
            lines |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f'{module} required username="admin" password="{self.password}";',
            }
        path = directory / f"{self.name}.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        return path


RIGHT = (
    Cell("PLAINTEXT", "PLAINTEXT"),
    Cell("SSL", "SSL"),
    Cell("mTLS", "MTLS"),
    Cell("SASL_PLAINTEXT-PLAIN", "SASL_PLAINTEXT", PLAIN),
    Cell("SASL_PLAINTEXT-SCRAM-256", "SASL_PLAINTEXT", SCRAM_256),
    Cell("SASL_SSL-PLAIN", "SASL_SSL", PLAIN),
    Cell("SASL_SSL-SCRAM-256", "SASL_SSL", SCRAM_256),
    Cell("SASL_SSL-SCRAM-512", "SASL_SSL", SCRAM_512),
)
WRONG = (
    Cell("wrong-PLAIN", "SASL_SSL", PLAIN, "wrong"),
    Cell("wrong-SCRAM-512", "SASL_SSL", SCRAM_512, "wrong"),
)
WITHOUT_SCRAM = ("kcat", "Java 0.10.2")
"""Debian's librdkafka sends its own nonce twice, which Apache Kafka refuses, too (CVE-2024-56128); Java's
client 0.10.2 needs a class that Java has no more since 11."""


def _python(name: str) -> Callable[[str], list[str]]:
    return lambda cells: [sys.executable, "-m", "tests.interop.python.secured_login", name, cells]


def _go(name: str) -> Callable[[str], list[str]]:
    return lambda cells: [str(go_program("secured")), name, cells]


def _node(cells: str) -> list[str]:
    return ["node", str(node_directory() / "secured_login.js"), cells]


CLIENTS: dict[str, Callable[[str], list[str]]] = {
    "confluent-kafka": _python("confluent-kafka"),
    "kafka-python": _python("kafka-python"),
    "aiokafka": _python("aiokafka"),
    "kcat": _python("kcat"),
    "franz-go": _go("franz-go"),
    "sarama": _go("sarama"),
    "KafkaJS": _node,
}
JAVA = {"Java 4.3.1": "4.3", "Java 3.9": "3.9", "Java 2.8": "2.8", "Java 0.10.2": "0.10"}

REFUSED = {
    "confluent-kafka": "_AUTHENTICATION",
    "kafka-python": "KafkaTimeoutError",  # It tries again until its time is over, whatever the broker says.
    "aiokafka": "KafkaConnectionError",
    "kcat": "Authentication failure",
    "franz-go": "SASL_AUTHENTICATION_FAILED",
    "sarama": "ErrSASLAuthenticationFailed",
    "KafkaJS": "KafkaJSSASLAuthenticationError",
    "Java 4.3.1": "SaslAuthenticationException",
    "Java 3.9": "SaslAuthenticationException",
    "Java 2.8": "SaslAuthenticationException",
    "Java 0.10.2": "TimeoutException",  # Only the end of the connection tells, as raw tokens have no errors.
}
"""What each client calls a wrong password."""


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    """What came of each cell, by client."""
    return {}


@pytest.fixture
def broker(
    guarded_kcli: GuardedKcli, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> GuardedKcli:
    """A guarded broker that knows `admin` by SCRAM, too, and lets everybody who logs in do everything."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", guarded_kcli.bootstrap)
    for mechanism in (SCRAM_256, SCRAM_512):
        made = kcli("users", "create", "admin", "--mechanism", mechanism, input=PASSWORDS["admin"].encode())
        assert made.exit_code == 0, made
    everything = ("--allow-principal", "User:*", "--topic", "*", "--group", "*")
    assert kcli("acls", "add", *everything).exit_code == 0
    assert kcli("topics", "create", TOPIC, "--if-not-exists").exit_code == 0
    return guarded_kcli


@pytest.mark.parametrize("client", [*CLIENTS, *JAVA])
def test_a_client_at_every_listener(
    client: str,
    broker: GuardedKcli,
    tmp_path: Path,
    table: dict[str, dict[str, str]],
    show: Callable[[str], None],
) -> None:
    cells = [cell for cell in (*RIGHT, *WRONG) if client not in WITHOUT_SCRAM or "SCRAM" not in cell.name]
    if client in JAVA:
        classes = java_classes("clients-0.10", "SecuredLogin")
        command = java_command(f"clients-{JAVA[client]}", "SecuredLogin", "-Xmx192m", classes=classes)
        command += [TOPIC, *(str(cell.properties(broker, tmp_path)) for cell in cells)]
    else:
        need(*{"kcat": ["kcat"], "KafkaJS": ["node"]}.get(client, []))
        command = CLIENTS[client](json.dumps([cell.json(broker) for cell in cells]))
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        cwd=INTEROP.parent.parent,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    rows = [line.split("\t") for line in ended.stdout.splitlines() if line.count("\t") == 2]
    said = {name: what for name, what, _ in rows}
    seconds = {name: float(text) for name, _, text in rows}
    expected = {cell.name: REFUSED[client] if cell in WRONG else "yes" for cell in cells}
    assert said == expected
    assert all(seconds[cell.name] < AT_ONCE_SECONDS for cell in cells if cell in WRONG), seconds
    table[client] = said
    if len(table) == len(CLIENTS) + len(JAVA):
        show(shown(table))


def shown(table: dict[str, dict[str, str]]) -> str:
    """Return the table of clients and listeners."""
    names = [cell.name for cell in (*RIGHT, *WRONG)]
    lines = ["| client | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for client, said in table.items():
        lines.append(f"| {client} | {' | '.join(said.get(name, '-') for name in names)} |")
    return "\n".join(lines)
