"""kcli's client and the listeners of a guarded Apache Kafka: TLS, logins, and what it says if they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kcli.client.client import connect
from kcli.client.config import ClientConfig
from kcli.security.client_security import ClientSecurity
from tests.support.guarded_brokers import PASSWORDS, SESSION_SECONDS, STORE_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kcli.security.sasl import SaslClient
    from tests.conftest import Finished
    from tests.support.guarded_brokers import GuardedApache

pytestmark = pytest.mark.interop

DOORS = [
    ("SSL", ""),
    ("MTLS", ""),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


@pytest.fixture
def run(kcli: Callable[..., Finished], tmp_path: Path) -> Callable[..., Finished]:
    """Run kcli with client properties from a file."""

    def done(properties: Mapping[str, str], *arguments: str, input: bytes = b"") -> Finished:
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return kcli(*arguments, "--command-config", str(path), input=input)

    return done


@pytest.mark.parametrize(("listener", "mechanism"), DOORS)
def test_a_client_passes_each_kind_of_listener(
    guarded_apache: GuardedApache, run: Callable[..., Finished], listener: str, mechanism: str
) -> None:
    properties = guarded_apache.doors.properties(listener, mechanism)
    result = run(properties, "cluster", "id", "-o", "text")
    assert (result.exit_code, result.err) == (0, ""), result
    assert result.out.strip()


@pytest.mark.parametrize("kind", ["p12", "jks"])
def test_stores_of_java_are_read(
    guarded_apache: GuardedApache, run: Callable[..., Finished], kind: str
) -> None:
    stores = guarded_apache.doors.stores
    store_type = {"p12": "PKCS12", "jks": "JKS"}[kind]
    properties = guarded_apache.doors.properties("MTLS")
    for name, of in (("keystore", "client"), ("truststore", "ca")):
        properties[f"ssl.{name}.type"] = store_type
        properties[f"ssl.{name}.location"] = str(stores.path(f"{of}.{kind}"))
        properties[f"ssl.{name}.password"] = STORE_PASSWORD
    result = run(properties, "cluster", "id")
    assert (result.exit_code, result.err) == (0, ""), result


@pytest.mark.parametrize("listener", ["SSL", "MTLS", "SASL_SSL"])
def test_the_certificates_of_a_listener_are_shown(
    guarded_apache: GuardedApache, run: Callable[..., Finished], listener: str
) -> None:
    properties = guarded_apache.doors.properties(listener)
    address = properties["bootstrap.servers"]
    lines = run(properties, "tls", "show", address, "-o", "text").out.splitlines()
    assert lines[0] == f"{address}: listener"
    assert [line.split()[0] for line in lines[1:3]] == ["TLSv1.2", "TLSv1.3"]
    assert lines[3].startswith("  key: ")
    assert lines[5].startswith("    for localhost")
    assert lines[-1] == "  trusted: yes"


def test_a_profile_names_the_cluster_and_the_environment_its_password(
    guarded_apache: GuardedApache,
    kcli: Callable[..., Finished],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = guarded_apache.doors.properties("SASL_SSL", "PLAIN")
    jaas = properties["sasl.jaas.config"].replace(PASSWORDS["admin"], "${env:ADMIN_PASSWORD}")
    lines = [f"{name} = '{value}'" for name, value in {**properties, "sasl.jaas.config": jaas}.items()]
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "profiles.toml").write_text("\n".join(("[guarded]", *lines)))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ADMIN_PASSWORD", PASSWORDS["admin"])
    by_option = kcli("cluster", "id", "--profile", "guarded")
    assert (by_option.exit_code, by_option.err) == (0, ""), by_option
    monkeypatch.setenv("KCLI_PROFILE", "guarded")
    assert kcli("cluster", "id") == by_option


async def test_a_client_logs_in_again_before_its_session_ends(
    guarded_apache: GuardedApache, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: list[float] = []
    make = ClientSecurity.sasl_client

    def counted(security: ClientSecurity) -> SaslClient:
        logins.append(trio.current_time())
        return make(security)

    config = ClientConfig.from_properties(guarded_apache.doors.properties("SASL_PLAINTEXT", "PLAIN"))
    monkeypatch.setattr(ClientSecurity, "sasl_client", counted)
    async with connect(guarded_apache.doors.address("SASL_PLAINTEXT"), config) as client:
        await client.node_versions(1)
        connection = client.links.get(1).connection
        logins.clear()
        with trio.fail_after(30):
            while len(logins) < 2:
                await client.metadata(())
        # The same connection all the time, whose session would have ended.
        assert client.links.get(1).connection is connection
    assert 0.8 * SESSION_SECONDS < logins[1] - logins[0] < SESSION_SECONDS
