"""`kcli tls`: shows certificates of stores and listeners, makes those of clients, reloads a broker's."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir
from kcli.commands.shared.options import CommandConfig
from kcli.commands.shared.runner import command
from kcli.commands.tls.reloaded import TlsReloaded, reloaded
from kcli.commands.tls.shown import ShownSource, TlsShown, certificate_row, iso, with_failures
from kcli.control_socket import ask
from kcli.errors import KcliError, UsageError, reason_of
from kcli.properties import format_properties, read_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.security.certificates.certificate_authority import CertificateAuthority

app = typer.Typer(
    name="tls",
    help="Show, make and reload certificates of listeners and clients.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DIRECTORY, CLIENTS = "tls", "clients"
ANSWER_SECONDS = 10.0
STORES = (".pem", ".p12", ".pfx", ".jks", ".crt", ".cer")
MOST_DAYS = 365

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A data directory, a store (PEM, PKCS12, JKS), or HOST:PORT")
]
PasswordFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with the store's password; a terminal is asked")
]


@command(app, "show", example="kcli tls show localhost:9092")
def show(
    target: Target,
    *,
    password_file: PasswordFile = None,
    command_config: CommandConfig = None,
) -> TlsShown:
    """Show certificates: their names, issuers, keys and ends; exit 3 if one is not valid now.

    Of a listener it shows the versions of TLS with their cipher suites, and the chain. With --command-config
    it also tells whether a client with these properties trusts the listener, and shows their certificate.
    """
    path = Path(target)
    if path.is_dir():
        return with_failures([show_file(each, password_file) for each in stores_in(path)])
    if path.is_file():
        return with_failures([show_file(path, password_file)])
    if re.fullmatch(r".+:\d+", target) and "/" not in target:
        return with_failures([show_listener(target, command_config)])
    raise UsageError(f"there is no file `{target}`", hint="a listener is written as HOST:PORT")


def stores_in(directory: Path) -> list[Path]:
    """Return the stores of a data directory, or of any other. Raises `UsageError` without any."""
    inside = directory / DIRECTORY
    directories = [inside, inside / CLIENTS] if inside.is_dir() else [directory]
    keys = ("ca-key.pem",)
    found = [
        each
        for place in directories
        if place.is_dir()
        for each in sorted(place.iterdir())
        if each.suffix.lower() in STORES and each.name not in keys
    ]
    if not found:
        raise UsageError(
            f"there are no stores in `{directory}`", hint="`kcli broker start --tls auto` makes some"
        )
    return found


def show_file(path: Path, password_file: Path | None) -> ShownSource:
    """Return the certificates of a store."""
    from kcli.security.certificates.certificate_authority import TRUST_STORE_PASSWORD
    from kcli.security.certificates.store_entries import PasswordNeeded, store_entries

    try:
        data = path.read_bytes()
        password = None if password_file is None else password_file.read_text().split("\n")[0]
    except OSError as error:
        raise UsageError(f"cannot read `{error.filename}`: {reason_of(error)}") from error
    try:
        read = store_entries(str(path), data, password)
    except PasswordNeeded:
        if password is not None:
            raise
        # A trust store that `--tls auto` has made needs no question.
        asked = TRUST_STORE_PASSWORD if path.name == "truststore.p12" else asked_password(path)
        if asked is None:
            raise
        read = store_entries(str(path), data, asked)
    now = datetime.now(UTC)
    rows = [certificate_row(entry, str(path), now) for entry in read.entries]
    return ShownSource(str(path), read.type, rows)


def asked_password(path: Path) -> str | None:
    """Return what a terminal answers; None without one."""
    import sys

    if not sys.stdin.isatty():
        return None
    from getpass import getpass

    return getpass(f"Password of {path}: ")


def show_listener(address: str, command_config: Path | None) -> ShownSource:
    """Return what a listener shows. Raises `KcliError` if it does not speak TLS."""
    from kcli.client.network.bootstrap import parse_bootstrap
    from kcli.client.network.tls_inspection import inspect_tls, trust_error
    from kcli.commands.shared.session import client_properties
    from kcli.security.certificates.store_entries import CHAIN, KEY, StoreEntry
    from kcli.security.tls_context import client_context
    from kcli.security.tls_settings import TlsSettings

    (node, *_others) = parse_bootstrap(address)
    settings = TlsSettings.from_properties(client_properties(command_config, None), "client")
    seen = inspect_tls(node, client_context(settings), ANSWER_SECONDS)
    trust = None
    if command_config is not None:
        trust = trust_error(node, client_context(settings), ANSWER_SECONDS) or "yes"
    now = datetime.now(UTC)
    entries = [StoreEntry(CHAIN if number else KEY, each) for number, each in enumerate(seen.chain)]
    rows = [certificate_row(entry, address, now) for entry in entries]
    return ShownSource(address, "listener", rows, seen.suites, trust)


# --- certificates of clients ---------------------------------------------------------------------


class ClientCert(NamedTuple):
    """A new certificate, whom a broker sees in it, and the files with it."""

    principal: str
    key_store: str
    client_properties: str
    not_after: str

    def lines(self) -> list[str]:
        return [
            f"{self.key_store}: {self.principal} until {self.not_after}",
            f"client properties: {self.client_properties}",
        ]


@command(app, "client-cert", example="kcli tls client-cert CN=alice")
def client_cert(
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="The client's distinguished name, as in CN=alice,O=kcli")
    ],
    *,
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, metavar="N", help="How long it is valid")] = 30,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> ClientCert:
    """Make a client's key and certificate, by the authority of `kcli broker start --tls auto`.

    They are written to <data-dir>/tls/clients, with a file of client properties for --command-config. Those
    that were made for the same name are replaced.
    """
    from kcli.security.certificates.certificate import Certificate
    from kcli.security.certificates.pem import certificates_of
    from kcli.security.certificates.private_files import make_private_directory, write_private_file

    directory = data_dir.absolute() / DIRECTORY
    authority = read_authority(directory)
    issued = authority.issue(subject, (), datetime.now(UTC), is_client=True, days=days)
    certificate = Certificate.parse(certificates_of(issued.decode("ascii"))[0])
    name = file_name(certificate.subject)
    key_store, properties = (directory / CLIENTS / f"{name}.{kind}" for kind in ("pem", "properties"))
    given = client_side(directory, key_store)
    try:
        make_private_directory(directory / CLIENTS)
        write_private_file(key_store, issued)
        write_private_file(properties, format_properties(given).encode("ascii"))
    except OSError as error:
        raise KcliError(f"cannot write `{error.filename}`: {reason_of(error)}") from error
    principal = f"User:{certificate.subject}"
    return ClientCert(principal, str(key_store), str(properties), iso(certificate.not_after))


def read_authority(directory: Path) -> CertificateAuthority:
    """Return the authority of a data directory. Raises `KcliError`."""
    from kcli.security.certificates.certificate_authority import CertificateAuthority

    certificate, key = directory / "ca.pem", directory / "ca-key.pem"
    try:
        return CertificateAuthority.load(certificate.read_bytes(), key.read_bytes())
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no authority in `{directory}`",
            hint="`kcli broker start --tls auto` makes one; `--data-dir` names its directory",
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise KcliError(f"cannot use the authority in `{directory}`: {error}") from error


def file_name(subject: str) -> str:
    """Return the value of a subject's first part, with other characters than a file name's replaced."""
    value = re.sub(r"[^A-Za-z0-9._-]+", "_", subject.partition(",")[0].partition("=")[2])
    return value.lstrip(".") or "client"


def client_side(directory: Path, key_store: Path) -> Mapping[str, str]:
    """Return a client's properties: those that the broker has written, and the key."""
    common = directory / "client.properties"
    if common.exists():
        given = read_properties(common)
    else:
        given = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
    return {**given, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}


@command(app, "reload", example="kcli tls reload --data-dir kcli-data")
def reload(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> TlsReloaded:
    """Have the running broker of a directory load the key and trust stores of its listeners again.

    It looks at their files every ten seconds anyway. New connections get the new certificate, others go on. A
    store that cannot be used, or whose certificate is for others, changes nothing: exit 1.
    """
    return reloaded(ask(data_dir.absolute(), "tls.reload", timeout_seconds=ANSWER_SECONDS))
