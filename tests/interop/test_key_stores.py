"""Stores that Java's keytool wrote load on both sides, with the keys and certificates that keytool shows."""

from __future__ import annotations

import re
import ssl
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kcli.errors import UsageError
from kcli.properties import format_properties
from kcli.security.certificates.key_stores import StoreSettings, read_store
from kcli.security.secret import Secret
from kcli.security.tls_context import client_context, server_context
from kcli.security.tls_settings import TlsSettings
from tests.support.guarded_brokers import keytool
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports
from tests.support.tls_pair import handshake
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

PASSWORD, KEY_PASSWORD = "store-s3cret", "key-s3cret"
LEGACY = "-J-Dkeystore.pkcs12.legacy"
KEYS = {"modern.p12": (), "legacy.p12": (LEGACY,), "own.jks": ()}
TRUSTS = {"trust.p12": (), "trust-legacy.p12": (LEGACY,), "trust.jks": (), "both.p12": ()}


def kind_of(name: str) -> str:
    return "JKS" if name.endswith("jks") else "PKCS12"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key for localhost, stores with it, and stores that trust it."""
    need("keytool")
    directory = tmp_path_factory.mktemp("stores")
    first, *others = KEYS
    common = ("-noprompt", "-storepass", PASSWORD)
    keytool(
        *("-genkeypair", "-alias", "own", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30"),
        *("-dname", "CN=localhost,O=kcli", "-ext", "san=dns:localhost", *common),
        *("-keystore", directory / first, "-storetype", "PKCS12"),
    )
    keytool(
        *("-exportcert", "-alias", "own", "-keystore", directory / first, "-file", directory / "own.der"),
        *common,
    )
    for name in others:
        keytool(
            *(*KEYS[name], "-importkeystore", "-noprompt", "-srckeystore", directory / first),
            *("-srcstorepass", PASSWORD, "-destkeystore", directory / name, "-deststorepass", PASSWORD),
            *("-deststoretype", kind_of(name)),
            *(("-destkeypass", KEY_PASSWORD) if kind_of(name) == "JKS" else ()),
        )
    (directory / "both.p12").write_bytes((directory / "legacy.p12").read_bytes())
    for name, options in TRUSTS.items():
        keytool(
            *(*options, "-importcert", "-alias", "trusted", "-file", directory / "own.der", *common),
            *("-keystore", directory / name, "-storetype", kind_of(name)),
        )
    return directory


def key_properties(stores: Path, name: str) -> dict[str, str]:
    properties = {
        "ssl.keystore.type": kind_of(name),
        "ssl.keystore.location": str(stores / name),
        "ssl.keystore.password": PASSWORD,
    }
    return {**properties, "ssl.key.password": KEY_PASSWORD} if kind_of(name) == "JKS" else properties


def trust_properties(stores: Path, name: str) -> dict[str, str]:
    return {
        "ssl.truststore.type": kind_of(name),
        "ssl.truststore.location": str(stores / name),
        "ssl.truststore.password": PASSWORD,
    }


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("key", KEYS)
def test_stores_of_keytool_load_on_both_sides(stores: Path, key: str, trust: str) -> None:
    both = {**key_properties(stores, key), **trust_properties(stores, trust)}
    server = server_context(TlsSettings.from_properties({**both, "ssl.client.auth": "required"}, "server"))
    client = client_context(TlsSettings.from_properties(both, "client"))
    pair = handshake(server, client)
    shown = (stores / "own.der").read_bytes()
    assert pair.client.getpeercert(binary_form=True) == pair.server.getpeercert(binary_form=True) == shown


@pytest.mark.parametrize("name", [*KEYS, *TRUSTS])
def test_a_wrong_password_is_one_error(stores: Path, name: str) -> None:
    with pytest.raises(UsageError, match="wrong password, or the file is damaged"):
        read_store(StoreSettings("trust", kind_of(name), str(stores / name), Secret("guess")))


def test_pyjks_reads_the_same_key(stores: Path) -> None:
    import jks

    theirs = jks.KeyStore.load(str(stores / "own.jks"), PASSWORD, try_decrypt_keys=False).private_keys["own"]
    theirs.decrypt(KEY_PASSWORD)
    settings = TlsSettings.from_properties(key_properties(stores, "own.jks"), "client")
    assert settings.key_store is not None
    own = read_store(settings.key_store)
    assert ssl.PEM_cert_to_DER_cert(own.key.replace("PRIVATE KEY", "CERTIFICATE")) == theirs.pkey_pkcs8
    assert list(own.chain) == [each for _kind, each in theirs.cert_chain]


def test_the_line_of_the_hint_converts(stores: Path, tmp_path: Path) -> None:
    source = tmp_path / "old.jceks"
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", stores / "modern.p12", "-srcstorepass", PASSWORD),
        *("-destkeystore", source, "-deststoretype", "JCEKS", "-deststorepass", PASSWORD),
    )
    with pytest.raises(UsageError) as refused:
        read_store(StoreSettings("key", "JKS", str(source), Secret(PASSWORD)))
    line = (refused.value.hint or "").removeprefix("convert it: ").split()
    subprocess.run(
        [*line, "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, "-noprompt"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert read_store(StoreSettings("key", "PKCS12", str(tmp_path / "store.p12"), Secret(PASSWORD))).key


@pytest.fixture(scope="module")
def broker(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A broker whose two listeners have the key in stores of two types."""
    ports = dict(zip(("PKCS12", "JKS"), free_ports(2), strict=True))
    properties = {
        f"listener.name.{kind_of(name).lower()}.{option}": value
        for name in ("legacy.p12", "own.jks")
        for option, value in key_properties(stores, name).items()
    }
    broker = KcliBroker(
        tmp_path_factory.mktemp("broker"),
        settings={
            "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:SSL" for name in ports),
            **properties,
        },
    )
    with closing(broker):
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert PASSWORD not in broker.log.read_text()


@pytest.mark.parametrize(("index", "trust"), [(0, "trust.p12"), (1, "trust.jks")], ids=["PKCS12", "JKS"])
def test_java_talks_to_listeners_with_stores_of_keytool(
    broker: KcliBroker, stores: Path, kafka_tool: KafkaTools, tmp_path: Path, index: int, trust: str
) -> None:
    (listener, other) = re.findall(r"\w+://(localhost:\d+)", " ".join(broker.command()))[:2]
    config = tmp_path / "client.properties"
    config.write_text(format_properties({"security.protocol": "SSL", **trust_properties(stores, trust)}))
    ours = ("--bootstrap-server", (listener, other)[index], "--topic", trust, "--command-config", config)
    assert kafka_tool("kafka-console-producer", *ours, stdin=b"one\ntwo\n").code == 0
    consumed = kafka_tool("kafka-console-consumer", *ours, "--from-beginning", "--max-messages", "2")
    assert consumed.lines == ["one", "two"]
