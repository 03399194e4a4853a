"""Warnings of client properties."""

from __future__ import annotations

from kcli.client.config import property_warnings


def test_unknown_names_are_warned_of_with_the_nearest_known() -> None:
    properties = {"lingr.ms": "1", "ssl.keystore.location": "x", "group.id": "g", "xyzzy": "1", "acks": "1"}
    assert property_warnings(properties) == [
        "unknown property `lingr.ms`, did you mean `linger.ms`?",
        "unknown property `xyzzy`",
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
