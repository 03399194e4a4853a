"""`kcli acls`: adds, removes, lists and explains access control entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

# The verbs of these modules are part of the application.
from kcli.commands.acls import denials as denials
from kcli.commands.acls import explain as explain
from kcli.commands.acls.options import (
    SPECIFIC,
    Operations,
    PatternFilterOption,
    PatternTypeOption,
    Principals,
    Resources,
    app,
    filters_of,
    pattern_type,
)
from kcli.commands.acls.results import Added, Listing, Removed
from kcli.commands.acls.roles import Roles
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError
from kcli.security.acl import AclEntry, AclFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", "--force", help="Do not ask before removing what is not named exactly")
]
OfPrincipals = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="PRINCIPAL", help="Only entries of this principal (repeatable)"),
]


@command(app, "add", example="kcli acls add --allow-principal User:alice --consumer --topic orders --group g")
async def add(
    operation: Operations = None,
    resource_pattern_type: PatternTypeOption = "literal",
    *,
    roles: Roles,
    principals: Principals,
    resources: Resources,
    cluster: ClusterAddress,
) -> Added:
    """Allow or deny operations on resources to principals.

    Without an entry that allows something it is denied, and an entry that denies wins. Read, Write, Delete
    and Alter include Describe. An entry for each principal, host, operation and resource is added.
    """
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    pattern = pattern_type(resource_pattern_type, is_filter=False)
    if not principals.are_given:
        raise UsageError("`--allow-principal` or `--deny-principal` is needed")
    entries = roles.entries(operation, principals, resources, pattern)
    filters = [AclFilter(*resource) for resource in dict.fromkeys(entry[:3] for entry in entries)]
    async with cluster.connect() as client:
        existing = await found_by(client, filters)
        new = [entry for entry in entries if entry not in existing]
        results = await admin.create_acls(client, new) if new else {}
    failures = [
        failure(f"cannot add {entry.principal} to {entry.resource_name}", error)
        for entry, error in results.items()
        if error is not None
    ]
    added = [entry for entry, error in results.items() if error is None]
    return Added(added, [entry for entry in entries if entry in existing], failures)


@command(app, "remove", example="kcli acls remove --allow-principal User:alice --topic orders")
async def remove(
    operation: Operations = None,
    resource_pattern_type: PatternFilterOption = "literal",
    dry_run: DryRun = False,
    yes: Yes = False,
    *,
    roles: Roles,
    principals: Principals,
    resources: Resources,
    cluster: ClusterAddress,
) -> Removed:
    """Remove entries: those that `add` with the same options makes.

    Without a principal all entries of the resources are removed. What is not named exactly is asked about on
    a terminal, and needs --yes elsewhere.
    """
    from kcli.client import admin
    from kcli.commands.acls.removal import confirm
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure

    pattern = pattern_type(resource_pattern_type, is_filter=True)
    if not principals.are_given and (operation or roles.are_given):
        raise UsageError("`--operation`, `--producer` and `--consumer` need a principal")
    entries = roles.entries(operation, principals, resources, pattern) if principals.are_given else []
    filters = filters_of(resources.some(), pattern, entries)
    async with cluster.connect() as client:
        found = sorted(await found_by(client, filters))
        if not found:
            note("no entry matches: nothing was removed")
        if dry_run or not found:
            return Removed(found, dry_run)
        if not entries or pattern not in SPECIFIC:
            confirm(found, yes=yes)
        results = await admin.delete_acls(client, filters)
    removed: set[AclEntry] = set()
    failures: list[KcliError] = []
    for result in results.values():
        if isinstance(result, KcliError):
            failures.append(failure("cannot remove entries", result))
        else:
            removed.update(result)
    return Removed(sorted(removed), failures=failures)


@command(app, "list", example="kcli acls list --topic orders --resource-pattern-type match")
async def list_acls(
    principal: OfPrincipals = None,
    resource_pattern_type: PatternFilterOption = "literal",
    *,
    resources: Resources,
    cluster: ClusterAddress,
) -> Listing:
    """List the entries of the cluster, or those of some resources or principals."""
    pattern = pattern_type(resource_pattern_type, is_filter=True)
    filters = [AclFilter(type, name, pattern) for type, name in dict.fromkeys(resources.named())]
    async with cluster.connect() as client:
        found = await found_by(client, filters or [AclFilter()])
    if principal:
        found = {entry for entry in found if entry.principal in principal}
    return Listing(sorted(found), principal or ())


async def found_by(client: Client, filters: Iterable[AclFilter]) -> set[AclEntry]:
    """Return the entries that any of some filters finds."""
    from kcli.client import admin

    found: set[AclEntry] = set()
    for each in filters:
        found.update(await admin.describe_acls(client, each))
    return found


VERBS = ("add", "remove", "list", "explain", "denials")

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
