"""What kcli says when a guarded broker and its client do not get together: the whole lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.guarded_brokers import PASSWORDS, PLAIN, SCRAM, STORE_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.guarded_brokers import GuardedApache, GuardedKcli

pytestmark = pytest.mark.interop


class Mistake(NamedTuple):
    """A client with the properties for one listener, other values, and the address of another listener."""

    door: str
    changed: Mapping[str, str | None]
    error: str
    hint: str
    address: str = ""
    code: int = 1


NOT_TLS = "is it a PLAINTEXT listener? then set `security.protocol` to PLAINTEXT or SASL_PLAINTEXT"
NO_CERTIFICATE = "set `ssl.keystore.location`, and what opens the store"
STRANGER = "its trust store must have the authority of the certificate in `ssl.keystore.location`"
AUTHORITY = "set `ssl.truststore.location` to a store with the authority's certificate"
LOGIN = "and `sasl.mechanism` and `sasl.jaas.config`"
CREDENTIAL = "check name and password, and that there is a credential for"

MISTAKES = {
    "TLS on PLAINTEXT": Mistake("SSL", {}, "{} does not speak TLS", NOT_TLS, "PLAINTEXT"),
    "SASL_SSL on SASL_PLAINTEXT": Mistake(
        "SASL_SSL", {}, "{} does not speak TLS", NOT_TLS, "SASL_PLAINTEXT"
    ),
    "PLAINTEXT on SSL": Mistake(
        "PLAINTEXT", {}, "{} speaks TLS", "set `security.protocol` to SSL or SASL_SSL", "SSL"
    ),
    "SASL_PLAINTEXT on SASL_SSL": Mistake(
        "SASL_PLAINTEXT", {}, "{} speaks TLS", "set `security.protocol` to SASL_SSL", "SASL_SSL"
    ),
    "an authority that is not trusted": Mistake(
        "SSL",
        {"ssl.truststore.location": "stranger.pem"},
        "the certificate of {} is not from a trusted authority: OU=Authority,O=Tests issued it",
        AUTHORITY,
    ),
    "an authority that the system does not know": Mistake(
        "SSL",
        {"ssl.truststore.location": None, "ssl.truststore.type": None},
        "the certificate of {} is not from a trusted authority: OU=Authority,O=Tests issued it",
        AUTHORITY,
    ),
    "another name": Mistake(
        "SSL",
        {"bootstrap.servers": "127.0.0.1"},
        "the certificate of {} is for localhost and kafka.test, not for 127.0.0.1",
        "use a name of the certificate, or have one issued for this name",
    ),
    "expired": Mistake(
        "EXPIRED", {}, "the certificate of {} has expired on 2021-02-03", "the broker needs a new one"
    ),
    "not yet valid": Mistake(
        "FUTURE", {}, "the certificate of {} is not valid before 2098-01-01",
        "check the clock of this machine",
    ),
    "no certificate": Mistake("SSL", {}, "{} wants a certificate of the client", NO_CERTIFICATE, "MTLS"),
    "no certificate, TLS 1.2": Mistake(
        "SSL",
        {"ssl.enabled.protocols": "TLSv1.2"},
        "{} wants a certificate of the client",
        NO_CERTIFICATE,
        "MTLS",
    ),
    "a stranger's certificate": Mistake(
        "MTLS",
        {"ssl.keystore.location": "mallory.pem"},
        "{} does not trust the certificate of the client",
        STRANGER,
    ),
    "a stranger's certificate, TLS 1.2": Mistake(
        "MTLS",
        {"ssl.keystore.location": "mallory.pem", "ssl.enabled.protocols": "TLSv1.2"},
        "{} does not trust the certificate of the client",
        STRANGER,
    ),
    "no common version": Mistake(
        "OLD",
        {"ssl.enabled.protocols": "TLSv1.3"},
        "{} and the client have no TLS version in common",
        "check `ssl.enabled.protocols`",
    ),
    "a login where there is none": Mistake(
        "SASL_PLAINTEXT",
        {},
        "the listener {} has no SASL",
        "set `security.protocol` to PLAINTEXT, or use the port of a SASL listener",
        "PLAINTEXT",
    ),
    "a login where there is none, TLS": Mistake(
        "SASL_SSL",
        {},
        "the listener {} has no SASL",
        "set `security.protocol` to SSL, or use the port of a SASL listener",
        "SSL",
    ),
    "no login": Mistake(
        "PLAINTEXT", {}, "{} wants a login", f"set `security.protocol` to SASL_PLAINTEXT, {LOGIN}",
        "SASL_PLAINTEXT",
    ),
    "no login, TLS": Mistake(
        "SSL", {}, "{} wants a login", f"set `security.protocol` to SASL_SSL, {LOGIN}", "SASL_SSL"
    ),
    "wrong password": Mistake(
        "SASL_SSL",
        {"sasl.jaas.config": f'{PLAIN} required username="alice" password="marker-s3cret";'},
        "authentication failed as alice at {}",
        f"{CREDENTIAL} PLAIN",
    ),
    "unknown user": Mistake(
        "SASL_PLAINTEXT",
        {"sasl.jaas.config": f'{PLAIN} required username="nobody" password="marker-s3cret";'},
        "authentication failed as nobody at {}",
        f"{CREDENTIAL} PLAIN",
    ),
    "wrong password, SCRAM": Mistake(
        "SASL_SSL",
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="marker-s3cret";',
        },
        "authentication failed as alice at {}",
        f"{CREDENTIAL} SCRAM-SHA-512",
    ),
    "unknown user, SCRAM": Mistake(
        "SASL_PLAINTEXT",
        {
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM} required username="nobody" password="marker-s3cret";',
        },
        "authentication failed as nobody at {}",
        f"{CREDENTIAL} SCRAM-SHA-256",
    ),
    "a mechanism that is not offered": Mistake(
        "SASL_PLAINTEXT",
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="marker-s3cret";',
        },
        "{} does not offer the SASL mechanism SCRAM-SHA-512",
        "set `sasl.mechanism` to one that it offers: ",
    ),
    "a login module of another mechanism": Mistake(
        "SASL_SSL",
        {"sasl.mechanism": "SCRAM-SHA-256"},
        f"`sasl.jaas.config` has the login module {PLAIN}, SCRAM-SHA-256 needs another",
        f"use {SCRAM}",
        code=2,
    ),
    "GSSAPI, the default": Mistake(
        "SASL_SSL",
        {"sasl.mechanism": None},
        "cannot log in by GSSAPI (Kerberos), the default of `sasl.mechanism`",
        "set `sasl.mechanism` to ",
        code=2,
    ),
    "a Java class that logs in": Mistake(
        "SASL_SSL",
        {"sasl.client.callback.handler.class": "com.example.Vault"},
        "cannot use `sasl.client.callback.handler.class` com.example.Vault: kcli runs no Java classes",
        "leave it out, and give the credentials in `sasl.jaas.config`",
        code=2,
    ),
    "a Java class that trusts": Mistake(
        "SSL",
        {"ssl.engine.factory.class": "com.example.Trust"},
        "cannot use `ssl.engine.factory.class` com.example.Trust: kcli runs no Java classes, and it decides"
        " who is trusted",
        "leave it out",
        code=2,
    ),
    "a store that is not there": Mistake(
        "SSL",
        {"ssl.truststore.location": "nothing.pem"},
        "cannot read the trust store `{stores}/nothing.pem`: No such file or directory",
        "",
        code=2,
    ),
    "the wrong password of a store": Mistake(
        "SSL",
        {
            "ssl.truststore.location": "ca.p12",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.password": "marker-s3cret",
        },
        "cannot use the trust store `{stores}/ca.p12`: wrong password, or the file is damaged",
        "",
        code=2,
    ),
    "a malformed login module": Mistake(
        "SASL_SSL",
        {"sasl.jaas.config": f'{PLAIN} required username="alice" password="marker-s3cret;'},
        "malformed JAAS configuration in `sasl.jaas.config`, line 1, column 92:"
        " a quoted value without an end",
        "",
        code=2,
    ),
}  # fmt: skip


@pytest.fixture(params=["guarded_apache", "guarded_kcli"])
def guarded(request: pytest.FixtureRequest) -> GuardedApache | GuardedKcli:
    """Each of the two brokers."""
    found: GuardedApache | GuardedKcli = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_at_once_in_one_line(
    guarded: GuardedApache | GuardedKcli, kcli: Callable[..., Finished], tmp_path: Path, name: str
) -> None:
    mistake = MISTAKES[name]
    properties: dict[str, str] = guarded.doors.properties(mistake.door)
    address = guarded.doors.address(mistake.address or mistake.door)
    for key, value in mistake.changed.items():
        properties.pop(key, None)
        if value is not None:
            in_stores = key.endswith(".location")
            properties[key] = str(guarded.doors.stores.path(value)) if in_stores else value
    if "bootstrap.servers" in mistake.changed:
        address = address.replace("localhost", str(mistake.changed["bootstrap.servers"]))
    properties["bootstrap.servers"] = address
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    finished = kcli("topics", "list", "--command-config", str(path))
    error, *hints = finished.err.splitlines()
    expected = mistake.error.replace("{stores}", str(guarded.doors.stores.directory))
    assert (finished.exit_code, finished.out) == (mistake.code, ""), finished
    assert error == f"error: {expected.replace('{}', address)}"
    assert "".join(hints).startswith(f"hint: {mistake.hint}" if mistake.hint else ""), hints
    assert len(hints) == bool(mistake.hint)


def test_no_secret_is_in_what_a_failure_says(
    guarded_apache: GuardedApache, kcli: Callable[..., Finished], tmp_path: Path
) -> None:
    properties = guarded_apache.doors.properties("SASL_SSL") | {
        "sasl.jaas.config": f'{PLAIN} required username="alice" password="marker-s3cret";',
        "ssl.keystore.location": str(guarded_apache.doors.stores.path("client.p12")),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
    }
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    for arguments in (
        ("--verbose",),
        ("--verbose", "-o", "json"),
        ("--verbose", "-X", "ssl.keystore.type=JKS"),
    ):
        finished = kcli("topics", "list", "--command-config", str(path), *arguments)
        assert finished.exit_code in (1, 2), finished
        assert "Traceback" in finished.err
        for secret in ("marker-s3cret", STORE_PASSWORD, *PASSWORDS.values()):
            assert secret not in finished.out + finished.err


DENIALS = {
    "topics create denied": ("cannot create topic `denied`: ", "Create", "topic `denied`", "--topic denied"),
    "produce shut": ("", "Write", "topic `shut`", "--topic shut"),
    "produce shut -X transactional.id=tx": (
        "", "Write", "transactional id `tx`", "--transactional-id tx",
    ),
    "consume shut --from-beginning": ("", "Read", "topic `shut`", "--topic shut"),
    "configs describe shut": (
        "cannot describe the configuration of topic shut: ", "DescribeConfigs", "topic `shut`",
        "--topic shut",
    ),
    "configs alter shut --add retention.ms=1000": (
        "cannot alter the configuration of topic shut: ", "AlterConfigs", "topic `shut`", "--topic shut",
    ),
    "configs describe --broker 1": (
        "cannot describe the configuration of broker 1: ", "DescribeConfigs", "the cluster", "--cluster",
    ),
    "consumer-groups describe g": (
        "cannot describe consumer group `g`: ", "Describe", "group `g`", "--group g",
    ),
    "consumer-groups delete g": ("cannot delete consumer group `g`: ", "Describe", "group `g`", "--group g"),
    "transactions describe tx": (
        "cannot describe transactional id `tx`: ", "Describe", "transactional id `tx`",
        "--transactional-id tx",
    ),
    "cluster unregister 9": ("cannot unregister broker 9: ", "Alter", "the cluster", "--cluster"),
    "log-dirs describe": (
        "cannot describe the log directories of broker 1: ", "Describe", "the cluster", "--cluster",
    ),
    "reassign-partitions list": ("", "Describe", "the cluster", "--cluster"),
    "preferred-replica-election --all-topic-partitions": ("", "Alter", "the cluster", "--cluster"),
}  # fmt: skip


@pytest.mark.parametrize("line", DENIALS)
def test_a_denial_names_user_operation_and_resource(
    guarded: GuardedApache | GuardedKcli, kcli: Callable[..., Finished], tmp_path: Path, line: str
) -> None:
    made = kcli("topics", "create", "shut", "--if-not-exists", "-b", guarded.bootstrap)
    assert made.exit_code == 0, made
    attempt, operation, resource, option = DENIALS[line]
    path = tmp_path / "client.properties"
    properties = guarded.doors.properties("SASL_SSL", user="alice")
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    finished = kcli(*line.split(), "--command-config", str(path), input=b"a line\n")
    *_, error, hint = finished.err.splitlines()
    assert finished.exit_code == 1, finished
    assert error == f"error: {attempt}User:alice may not {operation} {resource}"
    assert hint == (
        f"hint: `kcli acls explain --principal User:alice --operation {operation} {option}` tells why"
    )
