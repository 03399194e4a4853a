"""Warnings of client properties."""

from __future__ import annotations

from kcli.client.config import property_warnings


def test_unknown_names_are_warned_of_with_the_nearest_known() -> None:
    properties = {"lingr.ms": "1", "ssl.keystore.type": "x", "group.id": "g", "xyzzy": "1", "acks": "1"}
    assert property_warnings(properties) == [
        "unknown property `lingr.ms`, did you mean `linger.ms`?",
        "unknown property `xyzzy`",
    ]


def test_security_that_does_nothing_is_warned_of() -> None:
    properties = {
        "sasl.mechansim": "PLAIN",
        "ssl.trustsore.location": "ca.pem",
        "sasl.jaas.config": "secret",
        "sasl.oauthbearer.scope": "s",
    }
    assert property_warnings(properties) == [
        "unknown property `sasl.mechansim`, did you mean `sasl.mechanism`?",
        "unknown property `ssl.trustsore.location`, did you mean `ssl.truststore.location`?",
        "`sasl.jaas.config` has no effect: `security.protocol` is PLAINTEXT",
    ]
    with_tls = {
        "security.protocol": "ssl",
        "ssl.provider": "BC",
        "sasl.jaas.config": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert property_warnings(with_tls) == [
        "`ssl.provider` has no effect: it steers Java only",
        "`ssl.endpoint.identification.algorithm` is empty: any certificate of a trusted authority is"
        " accepted",
        "`sasl.jaas.config` has no effect: `security.protocol` is SSL",
    ]


def test_what_java_clients_act_on_and_kcli_does_not_is_warned_of() -> None:
    properties = {
        "transactional.id": "t",
        "transaction.timeout.ms": "1000",
        "transaction.two.phase.commit.enable": "true",
        "config.providers.file.class": "F",
        "bootstrap.servers": "b:9092",
        "key.serializer": "S",
        "metric.reporters": "M",
    }
    assert property_warnings(properties) == [
        "`transaction.two.phase.commit.enable` has no effect in kcli",
    ]
