"""`kcli broker start --tls`: which options fit together, and what a start leaves behind."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kcli.commands.broker.start import StartOptions, add_tls
from kcli.errors import UsageError
from tests.support.kcli_broker import READY_TIMEOUT_SECONDS, KcliBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished


def options(tls: str | None = "auto", client_auth: str | None = None) -> StartOptions:
    return StartOptions(tls=tls, client_auth=client_auth)


@pytest.mark.parametrize(
    ("given", "properties", "words"),
    [
        (options(), {"ssl.keystore.location": "k"}, "`--tls` and `ssl.keystore.location` exclude"),
        (options("missing.pem"), {}, "`--tls` names no file: missing.pem"),
        (options(), {"listeners": "PLAINTEXT://:9092"}, "`--tls` and `listeners` without TLS exclude"),
        (options(None, "required"), {}, "`--client-auth` needs a listener with TLS"),
        (options("auto", "maybe"), {}, "bad value of `--client-auth`: maybe"),
        (options("auto", "required"), {"ssl.client.auth": "none"}, "`ssl.client.auth=none` exclude"),
        (
            options(None, "required"),
            {"ssl.keystore.location": "k"},
            "`--client-auth` needs a trust store",
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    given: StartOptions, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        add_tls(given, dict(properties))
    assert words in refused.value.message
    assert refused.value.hint is not None


def test_options_become_properties(tmp_path: Path) -> None:
    key_store = tmp_path / "broker.pem"
    key_store.touch()
    properties: dict[str, str] = {}
    add_tls(options(str(key_store)), properties)
    assert properties == {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}
    for chosen in ("none", "requested", "required"):
        properties = {}
        add_tls(options("auto", chosen), properties)
        assert properties == {"ssl.client.auth": chosen}
    listeners = {"listeners": "PLAINTEXT://:9092,CLIENTS://:9093"}
    mapped = {**listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SSL"}
    add_tls(options(), dict(mapped))


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
