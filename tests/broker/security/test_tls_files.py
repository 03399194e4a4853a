"""The keys of `broker start --tls auto`: what a start keeps, and what it makes again."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kcli.broker.security.tls_files import TlsFiles, wanted_names
from kcli.errors import KcliError, UsageError
from kcli.properties import read_properties
from kcli.security.certificates.certificate import Certificate
from kcli.security.certificates.key_stores import StoreSettings, read_store
from kcli.security.certificates.pem import certificates_of
from kcli.security.secret import Secret
from kcli.security.tls_context import client_context, server_context
from kcli.security.tls_settings import TlsSettings
from tests.support.tls_pair import handshake

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC).replace(microsecond=0)
FILES = ["broker.pem", "ca-key.pem", "ca.pem", "truststore.p12"]


def prepared(data_dir: Path, *hosts: str, after_days: float = 0) -> TlsFiles:
    files = TlsFiles(data_dir)
    files.prepare(hosts, NOW + timedelta(days=after_days))
    return files


def contents(data_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data_dir / "tls").iterdir()}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return sorted(name for name in after if before.get(name) != after[name])


def shown(path: Path) -> Certificate:
    return Certificate.parse(certificates_of(path.read_text())[0])


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir(mode=0o755)
    prepared(tmp_path).write_client_properties("localhost:9092", "SSL")
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "tls").iterdir()}
    assert modes == dict.fromkeys([*FILES, "client.properties"], 0o600)


def test_clients_trust_the_authority_and_it_trusts_clients(tmp_path: Path) -> None:
    files = prepared(tmp_path, "kafka.example")
    files.write_client_properties("kafka.example:9092", "SSL")
    server = server_context(TlsSettings.from_properties(files.add_properties({}), "server"))
    given = read_properties(files.client_properties)
    client = client_context(TlsSettings.from_properties(given, "client"))
    for name in ("localhost", "127.0.0.1", "::1", "kafka.example"):
        assert handshake(server, client, name).client.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "elsewhere.example")


def test_the_trust_store_is_the_authority(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    store = StoreSettings("trust", "PKCS12", str(tmp_path / "tls/truststore.p12"), Secret("changeit"))
    assert read_store(store).trusted == certificates_of(files.authority.read_text())


def test_a_directory_with_other_letters_is_named_in_ascii(tmp_path: Path) -> None:
    data_dir = tmp_path / " dàta\\𝄞"
    data_dir.mkdir()
    files = prepared(data_dir)
    files.write_client_properties("localhost:9092", "SASL_SSL")
    assert files.client_properties.read_bytes().isascii()
    assert read_properties(files.client_properties) == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }


def test_comments_tell_what_a_client_adds_itself(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    files.write_client_properties("localhost:9092", "SASL_SSL", client_auth="required")
    text = files.client_properties.read_text()
    assert "# The broker wants a login: add sasl.mechanism" in text
    assert "# The broker asks for a certificate: `kcli tls client-cert CN=name` makes one" in text
    files.write_client_properties("localhost:9092", "SSL")
    assert "# The broker" not in files.client_properties.read_text()


def test_times_are_those_that_are_promised(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    authority, broker = shown(files.authority), shown(files.key_store)
    assert authority.not_after == NOW + timedelta(days=365)
    assert broker.not_after == NOW + timedelta(days=30)
    assert authority.not_before == broker.not_before == NOW - timedelta(hours=1)
    assert (authority.is_authority, broker.is_authority) == (True, False)
    assert broker.issuer == authority.subject


@pytest.mark.parametrize(
    ("after_days", "replaced"),
    [
        (0, []),
        (22.9, []),
        (23.1, ["broker.pem"]),
        (357.9, ["broker.pem"]),
        (358.1, FILES),
        (400, FILES),
    ],
)
def test_a_start_replaces_what_ends_soon(tmp_path: Path, after_days: float, replaced: list[str]) -> None:
    files = prepared(tmp_path)
    before = contents(tmp_path)
    prepared(tmp_path, after_days=after_days)
    assert changed(before, contents(tmp_path)) == replaced
    end = shown(files.key_store).not_after
    assert end - NOW >= timedelta(days=after_days + 6.9)
    assert end <= shown(files.authority).not_after


def test_a_start_with_another_advertised_host_replaces_the_certificate(tmp_path: Path) -> None:
    prepared(tmp_path, "one.example", "two.example")
    before = contents(tmp_path)
    prepared(tmp_path, "TWO.example", "0:0:0:0:0:0:0:1", "", "0.0.0.0")
    assert changed(before, contents(tmp_path)) == []
    prepared(tmp_path, "three.example")
    assert changed(before, contents(tmp_path)) == ["broker.pem"]


@pytest.mark.parametrize("name", ["broker.pem", "truststore.p12"])
def test_a_file_that_is_missing_is_made_again(tmp_path: Path, name: str) -> None:
    prepared(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "tls" / name).unlink()
    prepared(tmp_path)
    assert changed(before, contents(tmp_path)) == [name]


def test_a_damaged_key_store_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = prepared(tmp_path)
    whole = files.key_store.read_bytes()
    for damaged in (b"", whole[:100], whole.replace(b"PRIVATE", b"PUBLIC")):
        files.key_store.write_bytes(damaged)
        prepared(tmp_path)
        assert shown(files.key_store).subject == "CN=kcli broker"
    assert len(caplog.messages) == 3


def test_a_damaged_authority_is_left_to_its_owner(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    key = tmp_path / "tls/ca-key.pem"
    whole = key.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    prepared(other)
    for damaged in (b"", (other / "tls/ca-key.pem").read_bytes(), None):
        key.unlink(missing_ok=True) if damaged is None else key.write_bytes(damaged)
        with pytest.raises(KcliError) as refused:
            prepared(tmp_path)
        assert refused.value.hint is not None
        assert f"remove `{tmp_path}/tls`" in refused.value.hint
    key.write_bytes(whole)
    prepared(tmp_path)
    assert files.authority.exists()


def test_a_trust_store_of_the_user_stays(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    given = {"ssl.truststore.location": "mine.p12", "ssl.truststore.password": "p"}
    assert set(files.add_properties(given)) == {*given, "ssl.keystore.type", "ssl.keystore.location"}


def test_only_what_a_failed_start_has_made_is_removed(tmp_path: Path) -> None:
    prepared(tmp_path).discard_if_new()
    assert not (tmp_path / "tls").exists()
    prepared(tmp_path)
    prepared(tmp_path).discard_if_new()
    assert (tmp_path / "tls").exists()


def test_names_are_those_of_certificates() -> None:
    names = wanted_names(["::1", "[", "bücher.example", "fe80::1%eth0"])
    assert {"localhost", "127.0.0.1", "::1", "xn--bcher-kva.example", "fe80::1"} <= set(names)
    with pytest.raises(UsageError):
        wanted_names(["é" * 70])
