"""What contexts accept and refuse, by handshakes of both ends over memory."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from kcli.errors import UsageError
from kcli.security.tls_context import client_context, server_context
from kcli.security.tls_settings import TlsSettings
from tests.support.tls_pair import handshake, write_pem

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.certificates import Certificates


def server(properties: dict[str, str]) -> ssl.SSLContext:
    return server_context(TlsSettings.from_properties(properties, "server"))


def client(properties: dict[str, str]) -> ssl.SSLContext:
    return client_context(TlsSettings.from_properties(properties, "client"))


def key_of(certificates: Certificates, name: str = "broker.pem") -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": certificates.path(name)}


def trust_of(certificates: Certificates) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": certificates.path("ca.pem")}


def test_a_client_that_trusts_the_authority_is_served(certificates: Certificates) -> None:
    pair = handshake(server(key_of(certificates)), client(trust_of(certificates)))
    assert pair.client.version() == "TLSv1.3"
    assert pair.server.getpeercert(binary_form=True) is None


@pytest.mark.parametrize("line_break", ["\n", " ", "\\n"], ids=["lines", "one line", "escaped"])
def test_pem_text_may_stand_in_properties(certificates: Certificates, line_break: str) -> None:
    def text(name: str) -> str:
        written = certificates.text(name).replace("\n", line_break)
        return written.replace("\\n", "\n")

    key = text("broker.pem")
    inline = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": key,
    }
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text("ca.pem")}
    assert handshake(server(inline), client(trust)).client.version() == "TLSv1.3"


def test_a_client_refuses_a_stranger_and_another_host(certificates: Certificates) -> None:
    trusting = client(trust_of(certificates))
    with pytest.raises(ssl.SSLCertVerificationError) as stranger:
        handshake(server(key_of(certificates, "mallory.pem")), trusting, "mallory")
    assert stranger.value.verify_code in (18, 19, 20, 21)
    with pytest.raises(ssl.SSLCertVerificationError) as other:
        handshake(server(key_of(certificates)), trusting, "elsewhere")
    assert other.value.verify_code == 62


def test_an_empty_identification_algorithm_accepts_any_host(certificates: Certificates) -> None:
    lenient = client({**trust_of(certificates), "ssl.endpoint.identification.algorithm": ""})
    assert handshake(server(key_of(certificates)), lenient, "elsewhere").client.version()


CLIENTS = {"nobody": None, "alice": "alice.pem", "mallory": "mallory.pem"}


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("client_auth", "who", "is_served"),
    [
        ("none", "nobody", True),
        ("none", "mallory", True),
        ("requested", "nobody", True),
        ("requested", "alice", True),
        ("requested", "mallory", False),
        ("required", "nobody", False),
        ("required", "alice", True),
        ("required", "mallory", False),
    ],
)
def test_clients_show_certificates(
    certificates: Certificates, version: str, client_auth: str, who: str, is_served: bool
) -> None:
    broker = server({**key_of(certificates), **trust_of(certificates), "ssl.client.auth": client_auth})
    name = CLIENTS[who]
    shown = key_of(certificates, name) if name else {}
    asking = client({**trust_of(certificates), **shown, "ssl.enabled.protocols": version})
    if not is_served:
        with pytest.raises(ssl.SSLError):
            handshake(broker, asking)
        return
    has_shown = handshake(broker, asking).server.getpeercert(binary_form=True) is not None
    assert has_shown == (client_auth != "none" and who != "nobody")


def test_a_trust_store_with_the_certificate_itself_is_enough(certificates: Certificates) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": certificates.path("broker.pem")}
    assert handshake(server(key_of(certificates)), client(trust)).client.version()


@pytest.mark.parametrize(
    ("named", "version", "suite"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLSv1.2", "ECDHE-ECDSA-AES256-SHA"),
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3", None),
    ],
)
def test_the_suites_that_are_named_are_used(
    certificates: Certificates, named: str, version: str, suite: str | None
) -> None:
    broker = server({**key_of(certificates), "ssl.cipher.suites": named})
    asking = client({**trust_of(certificates), "ssl.cipher.suites": f"{named},TLS_AES_256_GCM_SHA384"})
    pair = handshake(broker, asking)
    cipher = pair.server.cipher()
    assert cipher is not None
    assert pair.server.version() == version
    assert suite in (None, cipher[0])


def test_versions_without_overlap_do_not_meet(certificates: Certificates) -> None:
    broker = server({**key_of(certificates), "ssl.enabled.protocols": "TLSv1.3"})
    old = client({**trust_of(certificates), "ssl.enabled.protocols": "TLSv1.2"})
    with pytest.raises(ssl.SSLError):
        handshake(broker, old)


# --- keys and files that cannot be used ----------------------------------------------------------


def test_a_listener_needs_a_key() -> None:
    with pytest.raises(UsageError) as refused:
        server({})
    assert refused.value.message == "a listener with TLS needs a key and its certificate"


def test_an_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key, chain = certificates.text("broker.pem").split("-----BEGIN CERTIFICATE-----", 1)
    loaded = serialization.load_pem_private_key(key.encode(), None)
    forms = serialization.PrivateFormat
    for number, form in enumerate((forms.PKCS8, forms.TraditionalOpenSSL)):
        encrypted = loaded.private_bytes(
            serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"key-s3cret")
        )
        path = tmp_path / f"{number}.pem"
        path.write_text(encrypted.decode() + "-----BEGIN CERTIFICATE-----" + chain)
        given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
        right = server({**given, "ssl.key.password": "key-s3cret"})
        assert handshake(right, client(trust_of(certificates))).client.version()
        with pytest.raises(UsageError) as wrong:
            server({**given, "ssl.key.password": "guess"})
        assert wrong.value.message.endswith("wrong password, or the file is damaged")
        with pytest.raises(UsageError) as missing:
            server(given)
        assert missing.value.hint == "give its password in `ssl.key.password`"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no certificate"),
        ("{certificate}", "it has no private key"),
        ("{key}", "it has no certificate"),
        ("{key}{key}{certificate}", "it has 2 private keys"),
        ("{key}{other}", "the private key does not belong to the first certificate"),
        ("{key}{cut}", "wrong password, or the file is damaged"),
    ],
)
def test_a_pem_store_that_lacks_something_is_named(
    certificates: Certificates, tmp_path: Path, text: str, words: str
) -> None:
    begin = "-----BEGIN CERTIFICATE-----"
    key, certificate = certificates.text("broker.pem").split(begin, 1)
    other = certificates.text("alice.pem").split(begin, 1)[1]
    lines = (begin + certificate).splitlines(keepends=True)
    path = tmp_path / "store.pem"
    path.write_text(
        text.format(
            key=key,
            certificate=begin + certificate,
            other=begin + other,
            cut="".join([*lines[:3], lines[-1]]),
        )
    )
    with pytest.raises(UsageError) as refused:
        server({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert refused.value.message == f"cannot use the key store `{path}`: {words}"


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.pem"
    with pytest.raises(UsageError) as refused:
        client({"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)})
    assert refused.value.message == f"cannot read the trust store `{path}`: No such file or directory"


def test_no_key_is_left_on_disk_or_in_descriptors(certificates: Certificates, tmp_path: Path) -> None:
    import os

    before = sorted(os.listdir("/proc/self/fd"))
    server(key_of(certificates))
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_key_without_a_password_refuses_one_as_in_java(certificates: Certificates) -> None:
    with pytest.raises(UsageError, match="its private key is not encrypted"):
        server({**key_of(certificates), "ssl.key.password": "guess"})


def test_a_chain_with_an_intermediate_is_shown_whole(certificates: Certificates, tmp_path: Path) -> None:
    intermediate = certificates.authority.create_child_ca()
    path = write_pem(intermediate.issue_cert("localhost"), tmp_path / "chain.pem")
    broker = server({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert handshake(broker, client(trust_of(certificates))).client.version()
