"""`kcli broker start --tls auto`: other programs connect with the files that it makes, and nothing else."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.support.kcli_broker import KcliBroker
from tests.support.toolchain import need

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


def test_openssl_trusts_the_chain_and_the_names(broker: KcliBroker) -> None:
    need("openssl")
    for name in (("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1")):
        command = ["openssl", "s_client", "-connect", broker.bootstrap, "-verify_return_error", *name]
        said = subprocess.run(
            [*command, "-CAfile", f"{broker.data}/tls/ca.pem"], input=b"", capture_output=True, timeout=30
        )
        assert b"Verification: OK" in said.stdout
