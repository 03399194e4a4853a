"""`kcli broker start --tls`: which options fit together, and what a start leaves behind."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kcli.commands.broker.tls_options import add_client_auth, add_tls
from kcli.errors import UsageError
from tests.support.kcli_broker import READY_TIMEOUT_SECONDS, KcliBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished


def added(
    properties: dict[str, str],
    tls: str | None = "auto",
    client_auth: str | None = None,
    protocol: str = "SSL",
) -> dict[str, str]:
    """Return the properties with what the options add."""
    found = dict(properties)
    if tls is not None:
        add_tls(found, tls, protocol=protocol)
    if client_auth is not None:
        add_client_auth(found, client_auth, protocol=protocol, tls=tls)
    return {name: text for name, text in found.items() if name not in properties}


@pytest.mark.parametrize(
    ("properties", "tls", "client_auth", "words"),
    [
        ({"ssl.keystore.location": "k"}, "auto", None, "`--tls` and `ssl.keystore.location` exclude"),
        ({}, "missing.pem", None, "`--tls` names no file: missing.pem"),
        ({"listeners": "PLAINTEXT://:9092"}, "auto", None, "`--tls`, but no listener in `listeners` has TLS"),
        ({}, "auto", "maybe", "bad value of `--client-auth`: maybe"),
        ({"ssl.client.auth": "none"}, "auto", "required", "`ssl.client.auth=none` exclude"),
        ({"listeners": "PLAINTEXT://:9092"}, None, "required", "`--client-auth` needs a listener with TLS"),
        (
            {"ssl.keystore.location": "k", "listeners": "SSL://:9092"},
            None,
            "required",
            "`--client-auth` needs a trust store",
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    properties: dict[str, str], tls: str | None, client_auth: str | None, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        added(properties, tls, client_auth)
    assert words in refused.value.message
    assert refused.value.hint is not None


def test_a_broker_without_tls_asks_for_no_certificates(kcli: Callable[..., Finished]) -> None:
    refused = kcli("broker", "start", "--client-auth", "required", "--port", "0")
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err == ("error: `--client-auth` needs a listener with TLS\nhint: `--tls auto` makes one\n")


def test_options_become_properties(tmp_path: Path) -> None:
    key_store = tmp_path / "broker.pem"
    key_store.touch()
    assert added({}, str(key_store)) == {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}
    for chosen in ("none", "requested", "required"):
        assert added({}, "auto", chosen) == {"ssl.client.auth": chosen}
    mapped = {
        "listeners": "PLAINTEXT://:9092,CLIENTS://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SSL",
    }
    assert added(mapped) == {}


def test_listeners_with_sasl_ask_for_certificates_too() -> None:
    own = "listener.name.sasl_ssl.ssl.client.auth"
    assert added({}, "auto", "required", "SASL_SSL") == {"ssl.client.auth": "required", own: "required"}
    with pytest.raises(UsageError) as refused:
        added({own: "none"}, "auto", "required", "SASL_SSL")
    assert f"`{own}=none` exclude each other" in refused.value.message


def test_a_broker_makes_its_keys_and_tells_clients_where_they_are(
    tmp_path: Path, kcli: Callable[..., Finished]
) -> None:
    broker = KcliBroker(tmp_path, arguments=["--tls", "auto", "-o", "json", "--nodes", "2"])
    client = broker.data / "tls" / "client.properties"
    try:
        line = broker.launch().wait_for_line(bool, timeout=READY_TIMEOUT_SECONDS, what="ready line")
        assert json.loads(line)["client_properties"] == str(client)
        status = kcli("broker", "status", "--data-dir", str(broker.data), "-o", "text")
        assert status.out.splitlines()[0].endswith(f" client properties {client}")
        created = kcli(
            "topics", "create", "orders", "--replication-factor", "2", "--command-config", str(client)
        )
        assert (created.exit_code, created.err) == (0, "")
        for port in (broker.port, broker.port + 1):
            nodes = kcli("cluster", "id", "-b", f"localhost:{port}", "--command-config", str(client))
            assert (nodes.exit_code, nodes.err) == (0, "")
    finally:
        broker.stop()
        broker.close()


def test_a_start_that_fails_leaves_no_keys(tmp_path: Path) -> None:
    broker = KcliBroker(tmp_path, arguments=["--tls", "auto"])
    with closing(broker), socket.create_server(("127.0.0.1", broker.port)):
        assert broker.launch().process.wait(READY_TIMEOUT_SECONDS) == 1
    assert "Address already in use" in broker.log.read_text()
    assert not broker.data.exists()
