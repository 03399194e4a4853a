"""Clients are who their certificates say: for Apache Kafka the same ones, and as rules map them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer

from tests.support.guarded_brokers import write_pem
from tests.support.tls_broker import TlsBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.guarded_brokers import GuardedApache

pytestmark = pytest.mark.interop

AUTHORIZED = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
"""Who comes without a certificate may do everything: the PLAINTEXT listener is the test's own door."""


@pytest.fixture
def new_broker(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., TlsBroker]:
    def start(**settings: str) -> TlsBroker:
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "ca.pem")}
        given = {name.replace("_", "."): value for name, value in settings.items()}
        broker = TlsBroker(tmp_path, settings={**AUTHORIZED, **trusted, **given})
        request.addfinalizer(broker.close)
        broker.start()
        return broker

    return start


def produced(config: Mapping[str, str], topic: str = "t", *, timeout_ms: int = 30_000) -> str | None:
    """Produce a record; return why that failed, None if it did not."""
    failures: list[str | None] = []
    producer = Producer({**config, "message.timeout.ms": timeout_ms, "error_cb": lambda _error: None})
    try:
        producer.produce(
            topic, b"x", on_delivery=lambda error, _: failures.append(None if error is None else error.name())
        )
    except KafkaException as error:
        return error.args[0].name()
    assert producer.flush(60) == 0
    (failure,) = failures
    return failure


def create(tools: KafkaTools, bootstrap: str, topic: str = "t") -> None:
    asked = ("--create", "--if-not-exists", "--topic", topic, "--partitions", "1")
    assert tools("kafka-topics", "--bootstrap-server", bootstrap, *asked).code == 0


def allow(tools: KafkaTools, bootstrap: str, principal: str, topic: str = "t") -> None:
    added = ("--add", "--allow-principal", principal, "--operation", "Write", "--topic", topic)
    assert tools("kafka-acls", "--bootstrap-server", bootstrap, *added).code == 0


def test_a_client_is_the_principal_that_apache_takes_it_for(
    new_broker: Callable[..., TlsBroker],
    guarded_apache: GuardedApache,
    kafka_tool: KafkaTools,
) -> None:
    stores = guarded_apache.doors.stores
    client = {"ssl.key.location": str(stores.path("client.pem")), "security.protocol": "ssl"}
    client |= {"ssl.certificate.location": str(stores.path("client.pem"))}
    broker = new_broker(
        ssl_client_auth="required",
        ssl_truststore_location=str(stores.path("ca.pem")),
    )
    create(kafka_tool, f"127.0.0.1:{broker.plaintext_port}")
    ours = {**broker.librdkafka, **client}
    assert produced(ours) == "TOPIC_AUTHORIZATION_FAILED"
    found = re.search(r"Principal = (User:CN=alice.*?) is Denied", broker.messages())
    assert found is not None, broker.messages()
    principal = found[1]
    theirs = {**client, "bootstrap.servers": guarded_apache.doors.address("MTLS")}
    theirs["ssl.ca.location"] = str(stores.path("ca.pem"))
    create(kafka_tool, guarded_apache.bootstrap, "certified")
    assert produced(theirs, "certified") == "TOPIC_AUTHORIZATION_FAILED"
    allow(kafka_tool, guarded_apache.bootstrap, principal, "certified")
    assert produced(theirs, "certified") is None
    allow(kafka_tool, f"127.0.0.1:{broker.plaintext_port}", principal)
    assert produced(ours) is None


def test_rules_map_the_name_and_who_no_rule_matches_is_closed(
    new_broker: Callable[..., TlsBroker], kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    broker = new_broker(
        ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:^CN=([a-z]+),O.*$/$1/U"
    )
    bootstrap = f"127.0.0.1:{broker.plaintext_port}"
    create(kafka_tool, bootstrap)
    allow(kafka_tool, bootstrap, "User:ALICE")
    configs = {}
    for name in ("alice", "bob", "4"):
        path = tmp_path / f"{name}.pem"
        write_pem(broker.authority.issue_cert(name, common_name=name), path)
        keys = {"ssl.key.location": str(path), "ssl.certificate.location": str(path)}
        configs[name] = {**broker.librdkafka, **keys}
    assert produced(configs["alice"]) is None
    assert produced(configs["bob"]) == "TOPIC_AUTHORIZATION_FAILED"
    assert produced(broker.librdkafka) is None
    assert produced(configs["4"], timeout_ms=1500) == "_MSG_TIMED_OUT"
    assert "no rule of `ssl.principal.mapping.rules` matches `CN=4,O" in broker.messages()


def test_clients_without_a_trusted_certificate_are_told_by_an_alert(
    new_broker: Callable[..., TlsBroker], tmp_path: Path
) -> None:
    import trustme

    broker = new_broker(ssl_client_auth="required")
    stranger = tmp_path / "mallory.pem"
    write_pem(trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert("mallory"), stranger)
    # With TLS 1.3 the alert comes after the client's handshake is over, so that it must ask for something.
    assert "alert certificate required" in broker.s_client("-tls1_3", "-ign_eof", stdin=b"x").lower()
    assert "alert handshake failure" in broker.s_client("-tls1_2").lower()
    said = broker.s_client("-tls1_2", "-cert", str(stranger), "-key", str(stranger))
    assert "alert unknown ca" in said.lower()
    messages = broker.messages()
    assert "the client sent no certificate, which `ssl.client.auth` requires" in messages
    assert "the client's certificate is not accepted: " in messages
