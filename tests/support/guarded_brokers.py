"""Brokers with one listener of each kind, users, stores of each type, and an authorizer."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import trustme
    from cryptography.hazmat.primitives.serialization import pkcs12

STORE_PASSWORD = "store-s3cret"
SESSION_SECONDS = 2
"""How long a login by PLAIN lasts on SASL_PLAINTEXT."""
PASSWORDS = {"admin": "admin-s3cret", "alice": "alice-s3cret"}
"""Users of PLAIN and of both SCRAM mechanisms; `admin` is a super user."""
LISTENERS = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "OLD": "SSL",
    "EXPIRED": "SSL",
    "FUTURE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""The security protocol of each; OLD has TLS 1.2 alone, EXPIRED and FUTURE certificates of other times."""


def keytool(*arguments: str | Path) -> None:
    """Run Java's keytool."""
    subprocess.run(
        ["keytool", "-J-XX:TieredStopAtLevel=1", *map(str, arguments)], check=True, capture_output=True
    )


@dataclass(frozen=True, slots=True)
class Stores:
    """Where keys and certificates are. `client.*` and `ca.*` exist as PEM, PKCS12 and JKS."""

    directory: Path

    def path(self, name: str) -> Path:
        return self.directory / name


def make_stores(directory: Path) -> Stores:
    """Make an authority, a broker's key for localhost, and a client's key in stores of three types."""
    # Imported here: loading them takes half a second.
    import trustme
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    directory.mkdir(exist_ok=True)
    authority = trustme.CA(
        organization_name="Tests", organization_unit_name="Authority", key_type=trustme.KeyType.ECDSA
    )
    authority.cert_pem.write_to_path(directory / "ca.pem")
    stranger = trustme.CA(organization_name="Stranger", key_type=trustme.KeyType.ECDSA)
    stranger.cert_pem.write_to_path(directory / "stranger.pem")
    write_pem(stranger.issue_cert("mallory"), directory / "mallory.pem")
    for name, first, last in (
        ("broker", None, None),
        ("expired", datetime(2020, 1, 1), datetime(2021, 2, 3)),
        ("future", datetime(2098, 1, 1), datetime(2099, 1, 1)),
    ):
        leaf = authority.issue_cert("localhost", "kafka.test", not_before=first, not_after=last)
        write_pem(leaf, directory / f"{name}.pem")
    client = authority.issue_cert("alice", common_name="alice")
    write_pem(client, directory / "client.pem")
    certificates = [x509.load_pem_x509_certificate(each.bytes()) for each in client.cert_chain_pems]
    key = private_key(client)
    (directory / "client.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client",
            key,
            certificates[0],
            certificates[1:],
            BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
    )
    password = ("-storepass", STORE_PASSWORD)
    for kind in ("jks", "p12"):
        keytool(
            "-importcert", "-noprompt", "-alias", "ca", "-file", directory / "ca.pem",
            "-keystore", directory / f"ca.{kind}", "-storetype", kind.replace("p12", "PKCS12"),
            *password,
        )  # fmt: skip
    keytool(
        "-importkeystore", "-noprompt", "-srckeystore", directory / "client.p12", "-srcstoretype", "PKCS12",
        "-srcstorepass", STORE_PASSWORD, "-destkeystore", directory / "client.jks", "-deststoretype", "JKS",
        "-deststorepass", STORE_PASSWORD,
    )  # fmt: skip
    for path in directory.iterdir():
        path.chmod(0o600)
    return Stores(directory)


def private_key(leaf: trustme.LeafCert) -> pkcs12.PKCS12PrivateKeyTypes:
    """Return a certificate's key."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return cast("pkcs12.PKCS12PrivateKeyTypes", load_pem_private_key(leaf.private_key_pem.bytes(), None))


def write_pem(leaf: trustme.LeafCert, path: Path) -> None:
    """Write a key and its chain to one file, the key as PKCS 8: Java reads no other form."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = private_key(leaf).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(key + b"".join(each.bytes() for each in leaf.cert_chain_pems))


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Doors:
    """The listeners of a guarded broker at `address("SASL_SSL")` and so on; PLAINTEXT asks nobody."""

    def __init__(self, directory: Path) -> None:
        self.stores = make_stores(directory / "stores")
        self.ports = {name: free_port() for name in ("PLAINTEXT", *LISTENERS)}

    def address(self, listener: str) -> str:
        """Return where a listener is, by the name that stands in the broker's certificate."""
        host = "127.0.0.1" if listener == "PLAINTEXT" else "localhost"
        return f"{host}:{self.ports[listener]}"

    def properties(self, listener: str, mechanism: str = "PLAIN", user: str = "admin") -> dict[str, str]:
        """Return a client's properties for a listener, with a PEM trust store."""
        protocol = LISTENERS.get(listener, "PLAINTEXT")
        given = {"bootstrap.servers": self.address(listener), "security.protocol": protocol}
        if "SSL" in protocol:
            given |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.stores.path("ca.pem")),
            }
        if listener == "MTLS":
            given |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.stores.path("client.pem")),
            }
        if protocol.startswith("SASL"):
            module = PLAIN if mechanism == "PLAIN" else SCRAM
            given |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{module} required username="{user}" password="{PASSWORDS[user]}";',
            }
        return given

    def settings(self, mechanisms: Sequence[str]) -> dict[str, str]:
        """Return a broker's properties for the listeners, with some SASL mechanisms, and its authorizer."""
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        logins = {
            "PLAIN": f"{PLAIN} required {users};",
            "SCRAM-SHA-256": f"{SCRAM} required;",
            "SCRAM-SHA-512": f"{SCRAM} required;",
            "OAUTHBEARER": f'{oauth} required unsecuredLoginStringClaim_sub="admin";',
        }
        protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(f"{name}://{self.address(name)}" for name in self.ports),
            "listener.security.protocol.map": ",".join(":".join(pair) for pair in protocols.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.stores.path("broker.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.stores.path("ca.pem")),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
            **{
                f"listener.name.{name}.ssl.keystore.location": str(self.stores.path(f"{name}.pem"))
                for name in ("expired", "future")
            },
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            **{
                f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": logins[mechanism]
                for name in ("sasl_plaintext", "sasl_ssl")
                for mechanism in mechanisms
            },
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(SESSION_SECONDS * 1000),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }


class GuardedApache(ApacheKafka):
    """Apache Kafka behind `doors`."""

    def __init__(
        self, directory: Path, tools: KafkaTools, *, settings: Mapping[str, str] | None = None
    ) -> None:
        self.doors = Doors(directory)
        controller = f"127.0.0.1:{free_port()}"
        own = self.doors.settings(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))
        own["controller.quorum.voters"] = f"1@{controller}"
        own["listeners"] += f",CONTROLLER://{controller}"
        own["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        super().__init__(
            directory,
            tools,
            settings={**own, **(settings or {})},
            format_arguments=[
                word
                for name, password in PASSWORDS.items()
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
            ],
        )
        self.port = self.doors.ports["PLAINTEXT"]
        self.bootstrap = self.doors.address("PLAINTEXT")


class GuardedKcli(KcliBroker):
    """A kcli broker behind `doors`."""

    def __init__(self, directory: Path) -> None:
        self.doors = Doors(directory)
        super().__init__(directory, settings=self.doors.settings(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")))
