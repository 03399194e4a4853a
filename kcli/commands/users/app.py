"""`kcli users`: lists, creates and deletes the SCRAM credentials of users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError
from kcli.security.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from kcli.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kcli.client.admin import UserCredential

app = typer.Typer(
    name="users",
    help="List, create and delete users who log in by SCRAM.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT_MECHANISM = "SCRAM-SHA-512"

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name of the user")]
UserArguments = Annotated[
    list[str] | None, typer.Argument(metavar="USER...", help="Only these users; by default all")
]
MechanismOption = Annotated[
    str, typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512")
]
DeletedMechanism = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="NAME", help="Only this credential; by default all"),
]
Iterations = Annotated[
    int,
    typer.Option(
        min=MIN_ITERATIONS,
        max=MAX_ITERATIONS,
        metavar="N",
        help="How often the password is hashed: more makes guessing and logging in slower",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A file whose first line is the password; by default the terminal is asked, or "
        "standard input read"
    ),
]  # fmt: skip


class UserRow(NamedTuple):
    """A user and the iterations of each credential, by mechanism."""

    user: str
    credentials: Mapping[str, int]

    @classmethod
    def of(cls, user: str, credentials: Sequence[UserCredential]) -> UserRow:
        return cls(user, {each.mechanism: each.iterations for each in credentials})

    def line(self) -> str:
        told = ", ".join(f"{name}=iterations={count}" for name, count in self.credentials.items())
        return f"SCRAM credential configs for user-principal '{self.user}' are {told}"


class Users(NamedTuple):
    """The result of `users list`."""

    users: Sequence[UserRow]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        yield from (row.line() for row in self.users)

    def tables(self) -> Iterator[Table]:
        rows = [
            (row.user, mechanism, iterations)
            for row in self.users
            for mechanism, iterations in row.credentials.items()
        ]
        yield Table(("User", "Mechanism", "Iterations"), rows)


class Changed(NamedTuple):
    """The result of `users create` and `users delete`: what was done for which mechanisms."""

    user: str
    mechanisms: Sequence[str]
    change: str

    def lines(self) -> Iterator[str]:
        yield f"{self.change} user {self.user}: {', '.join(self.mechanisms)}"


@command(app, "list", example="kcli users list")
async def list_users(users: UserArguments = None, *, cluster: ClusterAddress) -> Users:
    """List the users with a SCRAM credential; the passwords are not known to brokers."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    names = [not_empty(name, "user") for name in dict.fromkeys(users or ())]
    async with cluster.connect() as client:
        found = await admin.describe_user_scram_credentials(client, names)
    failures = [
        failure(f"cannot describe user `{name}`", each)
        for name, each in found.items()
        if isinstance(each, KcliError)
    ]
    rows = [UserRow.of(name, each) for name, each in sorted(found.items()) if not isinstance(each, KcliError)]
    return Users(rows, failures)


@command(app, "create", example="kcli users create alice --password-file alice.secret")
async def create(
    user: UserArgument,
    mechanism: MechanismOption = DEFAULT_MECHANISM,
    iterations: Iterations = MIN_ITERATIONS,
    password_file: PasswordFile = None,
    *,
    cluster: ClusterAddress,
) -> Changed:
    """Create a user who logs in by SCRAM, or change the password of one.

    The password is asked for on a terminal; elsewhere the first line of standard input is read. It is no
    option, because other users of this machine see command lines.
    """
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    wanted = mechanism_named(mechanism)
    name = not_empty(user, "user")
    password = password_of(name, password_file)
    async with cluster.connect() as client:
        try:
            await admin.set_scram_credential(client, name, password, mechanism=wanted, iterations=iterations)
        except KcliError as error:
            raise failure(f"cannot create user `{name}`", error) from error
    return Changed(name, [wanted], "created")


@command(app, "delete", example="kcli users delete alice")
async def delete(
    user: UserArgument, mechanism: DeletedMechanism = None, *, cluster: ClusterAddress
) -> Changed:
    """Delete the SCRAM credentials of a user. Connections that are open stay open."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    name = not_empty(user, "user")
    async with cluster.connect() as client:
        try:
            if mechanism is None:
                found = (await admin.describe_user_scram_credentials(client, [name]))[name]
                if isinstance(found, KcliError):
                    raise found
                wanted = [each.mechanism for each in found if each.mechanism in MECHANISMS]
            else:
                wanted = [mechanism_named(mechanism)]
            for each in wanted:  # A request may name a user once.
                await admin.delete_scram_credential(client, name, mechanism=each)
        except KcliError as error:
            raise failure(f"cannot delete user `{name}`", error) from error
    return Changed(name, wanted, "deleted")


def mechanism_named(text: str) -> str:
    """Return the name of a SCRAM mechanism in any case; raise `UsageError`."""
    if text.upper() not in MECHANISMS:
        raise UsageError(f"`--mechanism` cannot be {text}", hint=f"use {' or '.join(MECHANISMS)}")
    return text.upper()


def password_of(user: str, password_file: Path | None) -> Secret:
    """Return the password from a file, a terminal or standard input; raise `UsageError` for an empty one."""
    if password_file is not None:
        try:
            text = password_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"cannot read the password in `{password_file}`: {reason}") from error
    elif sys.stdin.isatty():
        text = _asked(user)
    else:
        with open(0, encoding="utf-8", closefd=False) as stdin:
            text = stdin.readline()
    password = text.partition("\n")[0].removesuffix("\r")
    if not password:
        raise UsageError("the password is empty", hint="`--password-file FILE`, or type it on a terminal")
    return Secret(password)


def _asked(user: str) -> str:
    from getpass import getpass

    password = getpass(f"Password of {user}: ")
    if password and getpass("Again: ") != password:
        raise UsageError("the passwords differ")
    return password
