"""How the clients of listeners log in: what is taken, what a broker refuses, and what it warns of."""

from __future__ import annotations

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.config_definition import InvalidConfig
from kcli.errors import UsageError
from kcli.security.jaas import PLAIN_MODULE, SCRAM_MODULE

MECHANISMS = "sasl.enabled.mechanisms"
PREFIX = "listener.name.sasl_plaintext."
JAAS = f"{PREFIX}plain.sasl.jaas.config"
REAUTH = "connections.max.reauth.ms"
ALICE = f"{PLAIN_MODULE} required user_alice=secret;"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
LOGINS = {"listeners": "SASL_PLAINTEXT://localhost:1", MECHANISMS: "PLAIN", JAAS: ALICE}


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({**LOGINS, **properties})


@pytest.mark.parametrize(
    ("properties", "lifetime"),
    [
        ({}, 0),
        ({REAUTH: "1"}, 1),
        ({REAUTH: "1", f"{PREFIX}{REAUTH}": "2"}, 2),
        ({REAUTH: "1", f"{PREFIX}{REAUTH}": "2", f"{PREFIX}plain.{REAUTH}": "3"}, 3),
        ({REAUTH: "1", f"{PREFIX}scram-sha-256.{REAUTH}": "3"}, 1),
        ({REAUTH: "1", f"listener.name.plaintext.{REAUTH}": "3"}, 1),
    ],
)
def test_the_nearest_property_counts(properties: dict[str, str], lifetime: int) -> None:
    (plain,) = config(**properties).sasl_settings("SASL_PLAINTEXT").mechanisms
    assert (plain.name, plain.max_reauth_ms) == ("PLAIN", lifetime)
    assert plain.jaas is not None
    assert plain.jaas.option("user_alice") == "secret"


def test_listeners_have_mechanisms_of_their_own() -> None:
    settings = config(**{MECHANISMS: "GSSAPI", f"{PREFIX}{MECHANISMS}": "PLAIN"})
    assert [each.name for each in settings.sasl_settings("SASL_PLAINTEXT").mechanisms] == ["PLAIN"]


def test_no_secret_shows_in_settings() -> None:
    assert "secret" not in repr(config().sasl_settings("SASL_PLAINTEXT"))


@pytest.mark.parametrize(
    ("properties", "message", "hint"),
    [
        (
            {"sasl.jaas.config": ALICE},
            "`sasl.jaas.config` must have the prefix of a listener and a mechanism",
            f"name it `{JAAS}`",
        ),
        (
            {f"{PREFIX}sasl.jaas.config": ALICE},
            "`sasl.jaas.config` must have the prefix of a listener and a mechanism",
            f"name it `{JAAS}`",
        ),
        (
            {f"{PREFIX}plain.sasl.jaas.confg": ALICE},
            f"unknown broker config name: {PREFIX}plain.sasl.jaas.confg",
            f"did you mean `{JAAS}`?",
        ),
        (
            {f"{PREFIX}ssl.keystore.locatoin": "x"},
            f"unknown broker config name: {PREFIX}ssl.keystore.locatoin",
            f"did you mean `{PREFIX}ssl.keystore.location`?",
        ),
        (
            {MECHANISMS: "GSSAPI"},
            "listener `SASL_PLAINTEXT` has GSSAPI, and kcli has no Kerberos",
            None,
        ),
        (
            {MECHANISMS: ""},
            "listener `SASL_PLAINTEXT` has no mechanism, and clients need one to log in",
            None,
        ),
        ({MECHANISMS: "PLANE"}, f"unknown mechanism `PLANE` in `{MECHANISMS}`", "did you mean `PLAIN`?"),
        (
            {JAAS: f"{PLAIN_MODULE} required"},
            f"malformed JAAS configuration in `{JAAS}`, line 1, column 65: an option or ; is missing",
            None,
        ),
        (
            {JAAS: f"{KERBEROS} required;"},
            f"`{JAAS}` has the login module {KERBEROS}, which is Kerberos",
            f"PLAIN needs {PLAIN_MODULE}",
        ),
        (
            {JAAS: f"{SCRAM_MODULE} required;"},
            f"`{JAAS}` has the login module {SCRAM_MODULE}, which does not know it",
            f"PLAIN needs {PLAIN_MODULE}",
        ),
        ({JAAS: ALICE + ALICE}, f"`{JAAS}` must have one login module, it has 2", None),
        (
            {"connections.max.idle.ms": "100"},
            "`connection.failed.authentication.delay.ms` (100) must be below `connections.max.idle.ms` (100)",
            None,
        ),
        (
            {"inter.broker.listener.name": "SASL_SSL"},
            "`inter.broker.listener.name` is SASL_SSL, which `advertised.listeners` has not",
            None,
        ),
        (
            {"security.inter.broker.protocol": "PLAINTEXT"},
            "`security.inter.broker.protocol` is PLAINTEXT, which `advertised.listeners` has not",
            "did you mean `SASL_PLAINTEXT`?",
        ),
        (
            {
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
            },
            "only one of `inter.broker.listener.name` and `security.inter.broker.protocol` may be set",
            None,
        ),
    ],
)
def test_what_would_let_nobody_in_or_anybody_is_refused(
    properties: dict[str, str], message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as refused:
        config(**properties)
    assert refused.value.message == message
    assert hint is None or refused.value.hint == hint


def test_a_mechanism_without_users_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_properties({name: text for name, text in LOGINS.items() if name != JAAS})
    assert refused.value.message == "listener `SASL_PLAINTEXT` knows no users for PLAIN"
    assert refused.value.hint is not None
    assert JAAS in refused.value.hint


@pytest.mark.parametrize(
    ("properties", "warnings"),
    [
        ({}, []),
        ({MECHANISMS: "PLAIN,GSSAPI"}, ["listener `SASL_PLAINTEXT` cannot speak GSSAPI, only PLAIN"]),
        (
            {"listeners": "SASL_PLAINTEXT://:1"},
            ["passwords come to listener `SASL_PLAINTEXT` in the clear: it has PLAIN without TLS"],
        ),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.2:1"}, []),
        (
            {"listeners": "PLAINTEXT://localhost:1"},
            [
                f"`{JAAS}` has no effect: `listeners` has no `SASL_PLAINTEXT`",
                f"`{MECHANISMS}` has no effect: no listener has SASL, so nobody has to log in",
            ],
        ),
        (
            {"inter.broker.listener.name": "SASL_PLAINTEXT", "sasl.mechanism.inter.broker.protocol": "PLAIN"},
            [
                "`inter.broker.listener.name` has no effect in kcli",
                "`sasl.mechanism.inter.broker.protocol` has no effect in kcli",
            ],
        ),
    ],
)
def test_what_is_probably_a_mistake_is_warned_of(properties: dict[str, str], warnings: list[str]) -> None:
    assert list(config(**properties).warnings) == warnings


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (MECHANISMS, "GSSAPI", "listener `SASL_PLAINTEXT` has GSSAPI, and kcli has no Kerberos"),
        (JAAS, "what", f"malformed JAAS configuration in `{JAAS}`, line 1, column 5: a flag is missing"),
    ],
)
def test_an_alteration_that_would_let_nobody_in_is_refused(name: str, text: str, message: str) -> None:
    before = config()
    with pytest.raises(InvalidConfig) as refused:
        before.with_dynamic(broker={name: text}, default={}).check_change(before)
    assert refused.value.message == message
