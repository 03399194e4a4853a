"""The Typer application `kcli acls`, and the options that its verbs share."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.options import complete_topic
from kcli.errors import UsageError, nearest_hint
from kcli.security.acl import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

app = typer.Typer(
    name="acls",
    help="Say who may do what, list it, and explain why something is denied.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PATTERN_TYPES = ("literal", "prefixed", "any", "match")
SPECIFIC = (PatternType.LITERAL, PatternType.PREFIXED)

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic (repeatable)", autocompletion=complete_topic),
]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group (repeatable)")]
ClusterResource = Annotated[bool, typer.Option("--cluster", help="The cluster itself")]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id (repeatable)"),
]
DelegationTokens = Annotated[
    list[str] | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token (repeatable)")
]
UserPrincipals = Annotated[
    list[str] | None,
    typer.Option(
        "--user-principal", metavar="PRINCIPAL", help="A user whose tokens it is about (repeatable)"
    ),
]


class Resources(NamedTuple):
    """The resources on a command line, and how their names are meant."""

    topic: Topics = None
    group: Groups = None
    cluster_resource: ClusterResource = False
    transactional_id: TransactionalIds = None
    delegation_token: DelegationTokens = None
    user_principal: UserPrincipals = None

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield type and name of each resource."""
        yield from ((ResourceType.TOPIC, not_empty(name, "topic")) for name in self.topic or ())
        yield from ((ResourceType.GROUP, not_empty(name, "group")) for name in self.group or ())
        if self.cluster_resource:
            yield ResourceType.CLUSTER, CLUSTER_NAME
        yield from (
            (ResourceType.TRANSACTIONAL_ID, not_empty(name, "transactional id"))
            for name in self.transactional_id or ()
        )
        yield from (
            (ResourceType.DELEGATION_TOKEN, not_empty(name, "delegation token"))
            for name in self.delegation_token or ()
        )
        yield from ((ResourceType.USER, principal_of(name)) for name in self.user_principal or ())

    def some(self) -> list[tuple[ResourceType, str]]:
        """Return type and name of each resource; raise `UsageError` if there is none."""
        found = list(dict.fromkeys(self.named()))
        if not found:
            raise UsageError(
                "no resource is named",
                hint="use `--topic`, `--group`, `--cluster`, `--transactional-id`, `--delegation-token` or "
                "`--user-principal`",
            )
        return found


PatternTypeOption = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="How names are meant: literal, or prefixed for all names that begin so",
    ),
]
PatternFilterOption = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="How names are meant: literal, prefixed, any for both, match for all that apply to the name",
    ),
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="OPERATION", help="What is allowed or denied (repeatable); by default All"
    ),
]


class Principals(NamedTuple):
    """Who is allowed or denied something, and from which hosts."""

    allow_principal: Annotated[
        list[str] | None,
        typer.Option(metavar="PRINCIPAL", help="Who is allowed, as in User:alice or User:* (repeatable)"),
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="From which IP address; by default any")
    ] = None
    deny_principal: Annotated[
        list[str] | None, typer.Option(metavar="PRINCIPAL", help="Who is denied (repeatable)")
    ] = None
    deny_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="From which IP address; by default any")
    ] = None

    @property
    def are_given(self) -> bool:
        return bool(self.allow_principal or self.deny_principal)

    def check(self, *, only_allows: str | None = None) -> None:
        """Raise `UsageError` for hosts without a principal, and for denials beside `only_allows`."""
        for kind, principals, hosts in (
            ("allow", self.allow_principal, self.allow_host),
            ("deny", self.deny_principal, self.deny_host),
        ):
            if hosts and not principals:
                raise UsageError(f"`--{kind}-host` needs `--{kind}-principal`")
        if only_allows is not None and (self.deny_principal or self.deny_host):
            raise UsageError(f"`{only_allows}` and `--deny-principal` exclude each other")

    def entries(
        self, resource: tuple[ResourceType, str], pattern: PatternType, operations: Iterable[Operation]
    ) -> Iterator[AclEntry]:
        """Yield an entry for each principal, host and operation."""
        type, name = resource
        wanted = list(operations)
        for permission, principals, hosts in (
            (PermissionType.ALLOW, self.allow_principal, self.allow_host),
            (PermissionType.DENY, self.deny_principal, self.deny_host),
        ):
            for principal, host, operation in product(principals or (), hosts or (WILDCARD,), wanted):
                yield AclEntry(
                    type,
                    name,
                    pattern,
                    principal_of(principal),
                    not_empty(host, "host"),
                    operation,
                    permission,
                )


def pattern_type(text: str, *, is_filter: bool) -> PatternType:
    """Return the pattern type of an option; raise `UsageError`."""
    names = PATTERN_TYPES if is_filter else PATTERN_TYPES[:2]
    if text.lower() not in names:
        raise UsageError(f"`--resource-pattern-type` cannot be {text}", hint=f"use {', '.join(names)}")
    return PatternType[text.upper()]


def operation(text: str) -> Operation:
    """Return an operation by its name, such as `Read`, `DescribeConfigs` or `DESCRIBE_CONFIGS`."""
    members = {spelled(each).lower(): each for each in Operation if each is not Operation.UNKNOWN}
    found = members.get(text.lower().replace("_", "").replace("-", ""))
    if found is None:
        raise UsageError(
            f"there is no operation {text}",
            hint=nearest_hint(text, [spelled(each) for each in members.values()]),
        )
    return found


def operations(texts: Sequence[str] | None) -> list[Operation]:
    """Return the operations of options, `ALL` without one."""
    return list(dict.fromkeys(map(operation, texts))) if texts else [Operation.ALL]


def check_operation(type: ResourceType, wanted: Operation) -> None:
    """Raise `UsageError` for an operation that resources of a type do not have."""
    known = OPERATIONS_OF[type]
    if wanted is not Operation.ALL and wanted not in known:
        raise UsageError(
            f"there is no operation {spelled(wanted)} on resources of type {spelled(type)}",
            hint=f"use {', '.join(sorted(map(spelled, known)))} or All",
        )


def filters_of(
    resources: Iterable[tuple[ResourceType, str]], pattern: PatternType, entries: Iterable[AclEntry]
) -> list[AclFilter]:
    """Return what finds these entries or, without entries, all of the resources."""
    exact = [
        AclFilter(
            each.resource_type,
            each.resource_name,
            pattern,
            each.principal,
            each.host,
            each.operation,
            each.permission,
        )
        for each in entries
    ]
    return exact or [AclFilter(type, name, pattern) for type, name in resources]


def principal_of(text: str) -> str:
    """Return a principal as it is given; raise `UsageError` for a name without its type."""
    type, colon, name = text.partition(":")
    if not (type and colon and name):
        raise UsageError(
            f"`{text}` is not a principal", hint=f"did you mean User:{text.strip(':') or 'alice'}?"
        )
    return text
