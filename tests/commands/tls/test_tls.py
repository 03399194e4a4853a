"""`kcli tls`: certificates of directories, stores and listeners, and those that it makes for clients."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import create_server, socket

import pytest

from kcli.broker.security.tls_files import TlsFiles
from kcli.properties import read_properties
from kcli.security.tls_context import client_context, server_context
from kcli.security.tls_settings import TlsSettings
from tests.conftest import Finished
from tests.security.test_key_stores import write_jks, write_pkcs12
from tests.support.certificates import make_certificates
from tests.support.tls_pair import handshake

Run = Callable[..., Finished]
NOW = datetime.now(UTC)


def made(directory: Path, *, days_ago: float = 0) -> TlsFiles:
    files = TlsFiles(directory)
    files.prepare([], NOW - timedelta(days=days_ago))
    return files


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[str]:
    """Answer handshakes until the end; without a context close every connection."""
    with create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                with connection:
                    answer(connection, context)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"localhost:{server.getsockname()[1]}"
        server.shutdown(2)
    thread.join(30)
    assert not thread.is_alive()


def answer(connection: socket, context: ssl.SSLContext | None) -> None:
    if context is None:
        return
    try:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(1)
    except OSError:
        return  # The client has gone or is refused: it tells.


# --- files ---------------------------------------------------------------------------------------


def test_a_data_directory_shows_its_certificates(tmp_path: Path, kcli: Run) -> None:
    made(tmp_path)
    kcli("tls", "client-cert", "CN=alice", "--data-dir", str(tmp_path))
    shown = kcli("tls", "show", str(tmp_path), "-o", "json")
    assert shown.exit_code == 0
    sources = json.loads(shown.out)["sources"]
    assert [(Path(each["source"]).name, each["type"]) for each in sources] == [
        ("broker.pem", "PEM"),
        ("ca.pem", "PEM"),
        ("truststore.p12", "PKCS12"),
        ("alice.pem", "PEM"),
    ]
    broker, authority, trusted, alice = (each["certificates"][0] for each in sources)
    assert authority["sha256"] == trusted["sha256"]
    assert broker["issuer"] == alice["issuer"] == authority["subject"]
    assert [each["role"] for each in (broker, authority, trusted, alice)] == [
        "key",
        "trusted",
        "trusted",
        "key",
    ]
    assert {"localhost", "127.0.0.1", "::1"} <= set(broker["names"])
    assert (broker["days_left"], authority["days_left"]) == (29, 364)


def test_text_tells_who_and_until_when(tmp_path: Path, kcli: Run) -> None:
    files = made(tmp_path)
    lines = kcli("tls", "show", str(files.authority), "-o", "text").out.splitlines()
    assert lines[0] == f"{files.authority}: PEM"
    assert lines[1].startswith("  trusted: CN=kcli development authority ")
    assert lines[2] == "    issued by itself"
    assert lines[3].startswith("    valid until ")
    assert lines[3].endswith("Z, 364 days left")


@pytest.mark.parametrize(
    ("days_ago", "words"), [(31, "expired on "), (-1, "not valid before ")], ids=["expired", "too early"]
)
def test_a_certificate_that_is_not_valid_now_is_exit_3(
    tmp_path: Path, kcli: Run, days_ago: float, words: str
) -> None:
    files = made(tmp_path, days_ago=days_ago)
    shown = kcli("tls", "show", str(files.key_store))
    assert shown.exit_code == 3
    assert f"    {words}" in shown.out
    assert f"error: {files.key_store}: the certificate of CN=kcli broker is not valid: {words}" in shown.err


def test_stores_of_each_type_are_shown(tmp_path: Path, kcli: Run) -> None:
    password = tmp_path / "password"
    password.write_text("store-s3cret\n")
    (tmp_path / "pem").mkdir()
    certificates = make_certificates(tmp_path / "pem")
    write_pkcs12(certificates, tmp_path / "alice.p12")
    write_jks(certificates, tmp_path / "alice.jks")
    (tmp_path / "ca.cer").write_bytes(ssl.PEM_cert_to_DER_cert(certificates.text("ca.pem")))
    shown = kcli("tls", "show", str(tmp_path), "--password-file", str(password), "-o", "json")
    assert (shown.exit_code, shown.err) == (0, "")
    told = {
        Path(each["source"]).name: (each["type"], sorted(row["role"] for row in each["certificates"]))
        for each in json.loads(shown.out)["sources"]
    }
    assert told == {
        "alice.p12": ("PKCS12", ["chain", "key"]),
        "alice.jks": ("JKS", ["chain", "key", "trusted"]),
        "ca.cer": ("DER", ["trusted"]),
    }
    # JKS tells without a password, PKCS12 does not.
    assert kcli("tls", "show", str(tmp_path / "alice.jks")).exit_code == 0
    refused = kcli("tls", "show", str(tmp_path / "alice.p12"))
    assert refused.exit_code == 2
    assert refused.err == (
        f"error: `{tmp_path}/alice.p12` needs a password, or is no store\n"
        "hint: `--password-file FILE` has it on its first line\n"
    )
    password.write_text("guess\n")
    for name in ("alice.jks", "alice.p12"):
        refused = kcli("tls", "show", str(tmp_path / name), "--password-file", str(password))
        assert refused.exit_code == 2
        assert "wrong password, or the file is damaged" in refused.err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing", None, "there is no file"),
        ("empty.pem", b"", "needs a password, or is no store"),
        ("text.pem", b"-----BEGIN A-----\nAAAA\n-----END A-----\n", "it has no certificate"),
        (
            "cut.pem",
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            "has a damaged certificate",
        ),
    ],
)
def test_what_is_no_store_is_refused(
    tmp_path: Path, kcli: Run, name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    refused = kcli("tls", "show", str(path))
    assert refused.exit_code == 2
    assert words in refused.err


def test_a_directory_without_stores_is_refused(tmp_path: Path, kcli: Run) -> None:
    refused = kcli("tls", "show", str(tmp_path))
    assert (refused.exit_code, refused.out) == (2, "")
    assert "hint: `kcli broker start --tls auto` makes some" in refused.err


# --- listeners -----------------------------------------------------------------------------------


def test_a_listener_shows_versions_and_chain(tmp_path: Path, kcli: Run) -> None:
    files = made(tmp_path)
    files.write_client_properties("localhost:9092", "SSL")
    properties = files.add_properties({"ssl.enabled.protocols": "TLSv1.3"})
    with listening(server_context(TlsSettings.from_properties(properties, "server"))) as address:
        shown = kcli("tls", "show", address, "-o", "json")
        known = kcli("tls", "show", address, "--command-config", str(files.client_properties), "-o", "text")
        strange = tmp_path / "strange.properties"
        strange.write_text("security.protocol=SSL\n")
        unknown = kcli("tls", "show", address, "--command-config", str(strange), "-o", "text")
    (source,) = json.loads(shown.out)["sources"]
    assert list(source["versions"]) == ["TLSv1.3"]
    assert (source["type"], source["trust"]) == ("listener", None)
    assert [row["subject"] for row in source["certificates"]] == ["CN=kcli broker"]
    assert known.out.splitlines()[-1] == "  trusted: yes"
    assert unknown.out.splitlines()[-1] == "  trusted: unable to get local issuer certificate"


def test_a_listener_that_wants_a_certificate_is_shown_with_one(tmp_path: Path, kcli: Run) -> None:
    files = made(tmp_path)
    properties = files.add_properties({"ssl.enabled.protocols": "TLSv1.2", "ssl.client.auth": "required"})
    kcli("tls", "client-cert", "CN=alice", "--data-dir", str(tmp_path))
    alice = str(tmp_path / "tls/clients/alice.properties")
    with listening(server_context(TlsSettings.from_properties(properties, "server"))) as address:
        without = kcli("tls", "show", address, "-o", "text")
        shown = kcli("tls", "show", address, "--command-config", alice, "-o", "text")
    assert without.out.splitlines() == [f"{address}: listener", "  TLSv1.2 only with a client certificate"]
    assert shown.out.splitlines()[-1] == "  trusted: yes"


def test_a_listener_without_tls_is_an_error(kcli: Run) -> None:
    with listening(None) as address:
        refused = kcli("tls", "show", address)
    assert refused.exit_code == 1
    assert f"error: {address} does not speak TLS" in refused.err


# --- certificates of clients ---------------------------------------------------------------------


def test_a_client_gets_a_key_and_properties(tmp_path: Path, kcli: Run) -> None:
    files = made(tmp_path)
    files.write_client_properties("localhost:9092", "SSL")
    issued = kcli(
        *("tls", "client-cert", "CN=alice,OU=Ärzte,O=kcli", "--days", "3"),
        *("--data-dir", str(tmp_path), "-o", "json"),
    )
    told = json.loads(issued.out)
    assert told["principal"] == "User:CN=alice,OU=Ärzte,O=kcli"
    lasts = datetime.fromisoformat(told["not_after"]) - datetime.now(UTC)
    assert timedelta(days=2, hours=23) < lasts <= timedelta(days=3)
    given = read_properties(Path(told["client_properties"]))
    assert given["bootstrap.servers"] == "localhost:9092"
    broker = files.add_properties({"ssl.client.auth": "required"})
    server = server_context(TlsSettings.from_properties(broker, "server"))
    pair = handshake(server, client_context(TlsSettings.from_properties(given, "client")))
    assert pair.server.getpeercert(binary_form=True)
    directory = tmp_path / "tls/clients"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_properties_of_a_client_do_not_wait_for_a_broker(tmp_path: Path, kcli: Run) -> None:
    made(tmp_path)
    assert kcli("tls", "client-cert", "CN=a/b c", "--data-dir", str(tmp_path)).exit_code == 0
    given = read_properties(tmp_path / "tls/clients/a_b_c.properties")
    assert given["ssl.truststore.location"] == str(tmp_path / "tls/ca.pem")


@pytest.mark.parametrize(
    ("subject", "words"), [("alice", "`alice` is no distinguished name"), ("CN=é", None), ("CN=..", None)]
)
def test_names_become_files_of_the_directory(
    tmp_path: Path, kcli: Run, subject: str, words: str | None
) -> None:
    made(tmp_path)
    issued = kcli("tls", "client-cert", subject, "--data-dir", str(tmp_path))
    assert issued.exit_code == (0 if words is None else 2)
    assert (words or "") in issued.err
    names = {path.name for path in (tmp_path / "tls/clients").glob("*.pem")} if words is None else set()
    assert names <= {"_.pem", "client.pem"}


def test_without_an_authority_the_hint_tells_how_to_get_one(tmp_path: Path, kcli: Run) -> None:
    refused = kcli("tls", "client-cert", "CN=alice", "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert "hint: `kcli broker start --tls auto` makes one" in refused.err
