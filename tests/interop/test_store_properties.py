"""`ssl.` properties and stores of every kind: kcli takes and refuses what Kafka does, and trusts the same."""

from __future__ import annotations

import hashlib
import subprocess
from base64 import b64encode
from itertools import product
from typing import TYPE_CHECKING

import pytest

from kcli.errors import UsageError
from kcli.properties import format_properties
from kcli.security.certificates.certificate_authority import CertificateAuthority
from kcli.security.certificates.key_stores import read_store
from kcli.security.certificates.pem import pem_blocks
from kcli.security.tls_context import client_context
from kcli.security.tls_settings import TlsSettings
from tests.broker.security.test_tls_files import NOW
from tests.support.apache_kafka import java_command
from tests.support.guarded_brokers import keytool
from tests.support.toolchain import java_classes, need

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.interop

PASSWORD = "store-s3cret"
REFUSED, NOTHING = "refused", "- -"

KEY_FILES = (
    "key.pem",
    "locked.pem",
    "key.p12",
    "bare.p12",
    "key.jks",
    "both.p12",
    "both.jks",
    "ca.p12",
    "ca.pem",
)
TRUST_FILES = (*KEY_FILES, "ca.jks", "openssl.p12")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make stores with a key and its chain, with trusted certificates, and with both."""
    need("keytool", "openssl")
    directory = tmp_path_factory.mktemp("stores")
    authority = CertificateAuthority.make(NOW)
    stranger = CertificateAuthority.make(NOW)
    key = directory / "key.pem"
    key.write_bytes(
        authority.issue("CN=alice", ["localhost"], NOW, is_client=True) + authority.certificate_pem
    )
    (directory / "ca.pem").write_bytes(authority.certificate_pem + stranger.certificate_pem)
    (directory / "stranger.pem").write_bytes(stranger.certificate_pem)

    def openssl(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=directory)

    password = f"pass:{PASSWORD}"
    # The cipher is an old one: Java 17 knows no newer for keys in PEM.
    cipher = ("-v1", "PBE-SHA1-3DES")
    openssl("pkcs8", "-topk8", *cipher, "-in", key, "-passout", password, "-out", "locked.key")
    certificates = key.read_text().partition("-----BEGIN CERTIFICATE")
    locked = (directory / "locked.key").read_text()
    (directory / "locked.pem").write_text(locked + certificates[1] + certificates[2])
    openssl(
        *("pkcs12", "-export", "-in", key, "-certfile", "ca.pem", "-passout", password),
        *("-name", "alice", "-out", "key.p12"),
    )
    openssl(
        *("pkcs12", "-export", "-in", key, "-passout", "pass:", "-keypbe", "NONE", "-certpbe", "NONE"),
        *("-nomac", "-name", "alice", "-out", "bare.p12"),
    )
    openssl("pkcs12", "-export", "-in", "ca.pem", "-nokeys", "-passout", password, "-out", "openssl.p12")
    for name, kind in (("key.jks", "JKS"), ("both.p12", "PKCS12"), ("both.jks", "JKS")):
        keytool(
            *(
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                directory / "key.p12",
                "-srcstoretype",
                "PKCS12",
            ),
            *("-srcstorepass", PASSWORD, "-destkeystore", directory / name, "-deststoretype", kind),
            *("-deststorepass", PASSWORD),
        )
    for name, kind in (("both.p12", "PKCS12"), ("both.jks", "JKS"), ("ca.p12", "PKCS12"), ("ca.jks", "JKS")):
        keytool(
            *("-importcert", "-noprompt", "-alias", "stranger", "-file", directory / "stranger.pem"),
            *("-keystore", directory / name, "-storetype", kind, "-storepass", PASSWORD),
        )
    return directory


def asked(requests: Sequence[dict[str, str]]) -> list[str]:
    """Return Kafka's answers."""
    lines = [b64encode(format_properties(each).encode()).decode() for each in requests]
    classes = java_classes("clients-4.3", "StoreOracle")
    command = java_command("clients-4.3", "StoreOracle", "-Xmx128m", classes=classes)
    finished = subprocess.run(
        command, input="\n".join(lines), capture_output=True, check=True, text=True, timeout=240
    )
    answers = finished.stdout.splitlines()
    assert len(answers) == len(requests)
    return answers


def own(properties: dict[str, str]) -> str:
    """Return kcli's answer in the same form."""
    try:
        settings = TlsSettings.from_properties(properties, "client")
        client_context(settings)
        chain = read_store(settings.key_store).chain if settings.key_store else ()
        trusted = read_store(settings.trust_store).trusted if settings.trust_store else ()
    except UsageError:
        return REFUSED
    return f"{digests(chain)} {digests(sorted(trusted, key=lambda each: hashlib.sha256(each).digest()))}"


def digests(certificates: Iterable[bytes]) -> str:
    return ",".join(hashlib.sha256(each).hexdigest() for each in certificates) or "-"


def given(kind: str, values: dict[str, str | None]) -> dict[str, str]:
    names = {"type": f"ssl.{kind}store.type", "location": f"ssl.{kind}store.location"}
    names |= {"password": f"ssl.{kind}store.password", "key": "ssl.key.password"}
    return present({names[name]: value for name, value in values.items()})


def present(values: dict[str, str | None]) -> dict[str, str]:
    """Return the values that are there."""
    return {name: value for name, value in values.items() if value is not None}


def differences(requests: Sequence[dict[str, str]]) -> list[tuple[dict[str, str], str, str]]:
    """Return what kcli and Kafka answer differently, other than where Java finds nothing in a store.

    Java sees neither a PKCS12 key without encryption, nor certificates that OpenSSL has put there, nor any
    without a password. So it trusts nobody. kcli sees them, or says at once what is missing.
    """
    told = [(each, java, own(each)) for each, java in zip(requests, asked(requests), strict=True)]
    assert {REFUSED, NOTHING} < {java for _each, java, _own in told}
    return [each for each in told if each[1] not in (each[2], NOTHING)]


def test_key_stores_are_taken_and_refused_as_by_kafka(directory: Path) -> None:
    requests = [
        given("key", {"type": kind, "location": str(directory / name), "password": password, "key": key})
        for kind, name, password, key in product(
            ("PKCS12", "PEM", None), KEY_FILES, (PASSWORD, "guess", "", None), (PASSWORD, "guess", None)
        )
    ]
    assert differences(requests) == []


def test_trust_stores_are_taken_and_refused_as_by_kafka(directory: Path) -> None:
    requests = [
        given("trust", {"type": kind, "location": str(directory / name), "password": password})
        for kind, name, password in product(
            ("PKCS12", "PEM", None), TRUST_FILES, (PASSWORD, "guess", "", None)
        )
    ]
    assert differences(requests) == []


def test_pem_text_in_properties_is_taken_and_refused_as_by_kafka(directory: Path) -> None:
    pem = (directory / "key.pem").read_text()
    noted = f"note: mine\n\n{pem}\n\n"
    # Of several blocks on one line Java reads the last: one each.
    key, certificate, *_others = (block.to_text().replace("\n", " ") for block in pem_blocks(pem))
    requests = [
        {
            **given("key", {"type": kind, "location": location, "password": password}),
            **present({"ssl.keystore.key": private, "ssl.keystore.certificate.chain": chain}),
        }
        for kind, location, password, private, chain in product(
            ("PEM", "JKS", None),
            (None, str(directory / "key.pem")),
            (None, PASSWORD),
            (None, pem, noted, key),
            (None, pem, certificate),
        )
    ]
    requests += [
        {
            **given("trust", {"type": kind, "location": location, "password": password}),
            **present({"ssl.truststore.certificates": text}),
        }
        for kind, location, password, text in product(
            ("PEM", "JKS", None),
            (None, str(directory / "ca.pem")),
            (None, PASSWORD),
            (None, pem, noted, certificate, "no PEM"),
        )
    ]
    assert differences(requests) == []
