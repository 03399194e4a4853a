"""Which `ssl.` properties are taken, refused, or noted as without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from kcli.errors import UsageError
from kcli.security.secret import Secret
from kcli.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    from pathlib import Path

PEM_KEY = {"ssl.keystore.type": "PEM", "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"}
SUITE = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


def settings(properties: dict[str, str], side: Literal["client", "server"] = "client") -> TlsSettings:
    return TlsSettings.from_properties(properties, side)


def test_a_client_without_properties_trusts_the_system_and_checks_names() -> None:
    assert settings({}) == TlsSettings("client")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.keystore.password": "p"}, "`ssl.keystore.password` is set without `ssl.keystore.location`"),
        ({"ssl.keystore.location": "k.jks"}, "`ssl.keystore.location` needs `ssl.keystore.password`"),
        ({"ssl.truststore.password": "p"}, "`ssl.truststore.password` is set without"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "k", "ssl.keystore.password": "p"},
            "PEM stores have no password",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "t", "ssl.truststore.password": "p"},
            "PEM stores have no password",
        ),
        ({**PEM_KEY, "ssl.keystore.type": "PKCS12"}, "`ssl.keystore.key` needs `ssl.keystore.type=PEM`"),
        ({**PEM_KEY, "ssl.keystore.location": "k"}, "exclude each other"),
        ({**PEM_KEY, "ssl.keystore.password": "p"}, "PEM stores have no password"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "k"}, "go together"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "c"}, "go together"),
        ({"ssl.truststore.certificates": "c"}, "needs `ssl.truststore.type=PEM`, and the type is JKS"),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "c",
                "ssl.truststore.location": "t",
            },
            "exclude each other",
        ),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "bad value"),
        ({"ssl.enabled.protocols": "TLSv1.4"}, "unknown version"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "leave no version"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": SUITE}, "leave no version"),
        ({"ssl.cipher.suites": "TLS_NULL"}, "unknown cipher suite"),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "it decides who is trusted"),
        ({"security.providers": "com.example.Provider"}, "it decides who is trusted"),
        ({"principal.builder.class": "com.example.Builder"}, "it decides who is trusted"),
    ],
)
def test_what_cannot_work_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings(properties)
    assert words in refused.value.message


def test_a_listener_refuses_other_ways_to_ask_for_certificates() -> None:
    with pytest.raises(UsageError) as refused:
        settings({"ssl.client.auth": "REQUIRED"}, "server")
    assert refused.value.hint == "it is one of none, requested, required"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.protocol": "TLSv1.2"}, "`ssl.protocol` has no effect"),
        ({"ssl.provider": "SunJSSE"}, "`ssl.provider` has no effect"),
        ({"ssl.secure.random.implementation": "NativePRNG"}, "`ssl.secure.random.implementation`"),
        ({"ssl.keymanager.algorithm": "NewSunX509"}, "`ssl.keymanager.algorithm`"),
        ({"ssl.trustmanager.algorithm": "SunX509"}, "`ssl.trustmanager.algorithm`"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not offered"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "cannot choose among those of TLS 1.3"),
        ({"ssl.endpoint.identification.algorithm": ""}, "any certificate of a trusted authority is accepted"),
    ],
)
def test_what_has_no_effect_or_opens_a_door_is_a_warning(properties: dict[str, str], words: str) -> None:
    (warning,) = settings(properties).warnings()
    assert words in warning


def test_a_broker_itself_warns_of_what_has_no_effect() -> None:
    assert settings({"ssl.protocol": "TLSv1.2"}, "server").warnings() == []


def test_what_java_has_anyway_is_no_warning() -> None:
    usual = {
        "ssl.protocol": "TLSv1.3",
        "ssl.keymanager.algorithm": "SunX509",
        "ssl.trustmanager.algorithm": "PKIX",
        "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
    }
    assert settings(usual).warnings() == []


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": "TLSv1.3 , TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": "TLSv1.2"}, ("TLSv1.2",)),
        ({"ssl.cipher.suites": SUITE}, ("TLSv1.2",)),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, ("TLSv1.3",)),
        ({"ssl.cipher.suites": f"TLS_AES_256_GCM_SHA384,{SUITE}"}, ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_a_version_is_offered_if_it_is_enabled_and_has_a_suite(
    properties: dict[str, str], versions: tuple[str, ...]
) -> None:
    assert settings(properties).versions == versions


def test_a_broker_offers_no_suite_with_dhe() -> None:
    named = {"ssl.cipher.suites": f"TLS_DHE_RSA_WITH_AES_128_GCM_SHA256,{SUITE}"}
    broker = settings(named, "server")
    assert broker.cipher_suites == ("ECDHE-RSA-AES256-GCM-SHA384",)
    assert "those with DHE are not offered" in broker.warnings()[0]
    assert len(settings(named).cipher_suites) == 2


def test_a_key_store_that_everybody_can_read_is_a_warning(tmp_path: Path) -> None:
    store = tmp_path / "key.pem"
    store.touch()
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(store),
    }
    for mode, count in ((0o600, 0), (0o640, 0), (0o644, 1)):
        store.chmod(mode)
        assert len(settings(given).warnings()) == count, oct(mode)
    assert settings(given).files() == (str(store), str(store))


def test_nothing_shows_a_password() -> None:
    given: dict[str, str | Secret] = {
        "ssl.keystore.location": "k.p12",
        "ssl.keystore.password": "m4rker",
        "ssl.key.password": Secret("m4rker"),
    }
    shown = TlsSettings.from_properties(given, "server")
    assert "m4rker" not in repr(shown)
    assert shown.key_store is not None
    assert shown.key_store.key_password is not None
    assert shown.key_store.key_password.reveal() == "m4rker"
