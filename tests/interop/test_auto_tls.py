"""`kcli broker start --tls auto`: other programs connect with the files that it makes, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import java_command
from tests.support.kcli_broker import KcliBroker
from tests.support.toolchain import java_classes, need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

LINES = [f"line {number}" for number in range(50)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    broker = KcliBroker(tmp_path_factory.mktemp("auto"), arguments=["--tls", "auto"])
    with closing(broker):
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.log.read_text()


def with_trust_store(broker: KcliBroker, path: Path) -> Path:
    """Write the properties of a client that reads no PEM, as the comments of client.properties tell."""
    lines = (broker.data / "tls" / "client.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#", "ssl.truststore"))]
    path.write_text("\n".join([*kept, *(line[2:] for line in lines if line.startswith("# ssl."))]))
    return path


def test_kcat_connects_with_the_authority(broker: KcliBroker) -> None:
    need("kcat")
    settings = [
        *("-b", f"localhost:{broker.port}", "-X", "security.protocol=ssl"),
        *("-X", f"ssl.ca.location={broker.data}/tls/ca.pem", "-t", "kcat"),
    ]
    subprocess.run(["kcat", "-P", *settings], input="\n".join(LINES), text=True, check=True, timeout=60)
    consume = ["kcat", "-C", *settings, "-o", "beginning", "-e", "-q"]
    finished = subprocess.run(consume, capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.splitlines() == LINES


@pytest.mark.parametrize("store", ["pem", "pkcs12"])
def test_java_connects_with_client_properties(
    broker: KcliBroker, kafka_tool: KafkaTools, tmp_path: Path, store: str
) -> None:
    config = broker.data / "tls" / "client.properties"
    if store == "pkcs12":
        config = with_trust_store(broker, tmp_path / "client.properties")
    ours = ("--bootstrap-server", broker.bootstrap, "--topic", store, "--command-config", config)
    assert kafka_tool("kafka-console-producer", *ours, stdin="\n".join(LINES).encode()).code == 0
    consumed = kafka_tool("kafka-console-consumer", *ours, "--from-beginning", "--max-messages", "50")
    assert consumed.lines == LINES


@pytest.mark.parametrize("module", ["clients-0.10", "clients-1.1", "clients-2.8"])
def test_old_java_clients_connect_with_the_trust_store(
    broker: KcliBroker, tmp_path: Path, module: str
) -> None:
    config = with_trust_store(broker, tmp_path / "client.properties")
    classes = java_classes("clients-0.10", "OneRecord")
    command = java_command(module, "OneRecord", "-Xmx96m", classes=classes)
    finished = subprocess.run(
        [*command, config, module, "hello"], capture_output=True, text=True, check=True, timeout=120
    )
    assert finished.stdout.splitlines() == ["hello"]


def test_openssl_trusts_the_chain_and_the_names(broker: KcliBroker) -> None:
    need("openssl")
    for name in (("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1")):
        command = ["openssl", "s_client", "-connect", broker.bootstrap, "-verify_return_error", *name]
        said = subprocess.run(
            [*command, "-CAfile", f"{broker.data}/tls/ca.pem"], input=b"", capture_output=True, timeout=30
        )
        assert b"Verification: OK" in said.stdout


def test_with_sasl_the_listener_is_sasl_ssl(tmp_path: Path, kafka_tool: KafkaTools) -> None:
    arguments = ["--tls", "auto", "--sasl", "PLAIN", "--user", "alice=s3cret"]
    broker = KcliBroker(tmp_path, arguments=arguments)
    with closing(broker):
        broker.start()
        text = (broker.data / "tls" / "client.properties").read_text()
        assert "security.protocol=SASL_SSL\n" in text
        config = tmp_path / "alice.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'sasl.jaas.config={module} required username="alice" password="s3cret";\n'
        config.write_text(f"{text}sasl.mechanism=PLAIN\n{login}")
        create = ("--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders")
        created = kafka_tool("kafka-topics", *create, "--command-config", config)
        assert (created.code, created.lines) == (0, ["Created topic orders."])
        assert broker.stop() == 0


# --- client certificates -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A broker that wants certificates, and lets User:alice do everything; alice.pem and bob.pem are made."""
    broker = KcliBroker(
        tmp_path_factory.mktemp("guarded"),
        arguments=["--tls", "auto", "--client-auth", "required", "--acls"],
        settings={
            "super.users": "User:alice",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),O=kcli$/$1/L,DEFAULT",
        },
    )
    with closing(broker):
        broker.start()
        for subject in ("CN=Alice,O=kcli", "CN=bob"):
            command = [sys.executable, "-m", "kcli", "tls", "client-cert", subject]
            subprocess.run([*command, "--data-dir", broker.data], check=True, capture_output=True)
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.log.read_text()


def test_java_is_who_its_certificate_says(guarded: KcliBroker, kafka_tool: KafkaTools) -> None:
    create = ("kafka-topics", "--bootstrap-server", guarded.bootstrap, "--create", "--topic")
    clients = guarded.data / "tls" / "clients"
    allowed = kafka_tool(*create, "alices", "--command-config", clients / "Alice.properties")
    assert (allowed.code, allowed.lines) == (0, ["Created topic alices."])
    denied = kafka_tool(*create, "bobs", "--command-config", clients / "bob.properties")
    assert denied.code == 1
    assert "TopicAuthorizationException" in denied.output + denied.errors
    assert "User:CN=bob" in guarded.log.read_text()


def test_kcat_needs_a_certificate(guarded: KcliBroker) -> None:
    need("kcat")
    tls = guarded.data / "tls"
    command = [
        *("kcat", "-L", "-J", "-b", guarded.bootstrap, "-m", "2", "-X", "security.protocol=ssl"),
        *("-X", f"ssl.ca.location={tls}/ca.pem"),
    ]
    key = tls / "clients" / "Alice.pem"
    shown = ("-X", f"ssl.certificate.location={key}", "-X", f"ssl.key.location={key}")
    listed = subprocess.run([*command, *shown], capture_output=True, text=True, timeout=60)
    assert '"topics"' in listed.stdout, listed.stderr
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0
    assert "certificate required" in refused.stderr.lower()
