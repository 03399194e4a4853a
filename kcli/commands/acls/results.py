"""The results of `kcli acls`: the text of Kafka's tool, tables and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.commands.shared.output import Table
from kcli.security.acl import AclEntry, PatternType, ResourceType, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kcli.errors import KcliError

Resource = tuple[ResourceType, str, PatternType]

COLUMNS = ("Type", "Name", "Pattern", "Principal", "Host", "Operation", "Permission")


def by_resource(entries: Iterable[AclEntry]) -> dict[Resource, list[AclEntry]]:
    """Return entries by the resources that they are about, both in order."""
    found: dict[Resource, list[AclEntry]] = {}
    for entry in sorted(entries):
        found.setdefault(entry[:3], []).append(entry)
    return found


def resource_text(resource: Resource) -> str:
    """Return a resource as Kafka's tool prints it."""
    type, name, pattern = resource
    return f"ResourcePattern(resourceType={type.name}, name={name}, patternType={pattern.name})"


def entry_text(entry: AclEntry) -> str:
    """Return the principal's part of an entry as Kafka's tool prints it."""
    return (
        f"(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
    )


def entry_json(entry: AclEntry) -> dict[str, Any]:
    """Return an entry as JSON, in Kafka's names."""
    return {
        "resource_type": entry.resource_type.name,
        "resource_name": entry.resource_name,
        "pattern_type": entry.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }


def row(entry: AclEntry) -> tuple[str, ...]:
    """Return an entry as a row of a table."""
    return (
        spelled(entry.resource_type),
        entry.resource_name,
        spelled(entry.pattern_type).lower(),
        entry.principal,
        entry.host,
        spelled(entry.operation),
        spelled(entry.permission).lower(),
    )


class Listing(NamedTuple):
    """The result of `acls list`; with `principals` the text is by principal, as in Kafka's tool."""

    acls: Sequence[AclEntry]
    principals: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        if not self.principals:
            yield from self._lines(self.acls)
        for principal in self.principals:
            yield f"ACLs for principal `{principal}`"
            yield from self._lines(entry for entry in self.acls if entry.principal == principal)

    @staticmethod
    def _lines(entries: Iterable[AclEntry]) -> Iterator[str]:
        for resource, found in by_resource(entries).items():
            yield f"Current ACLs for resource `{resource_text(resource)}`:"
            yield from (f"\t{entry_text(entry)}" for entry in found)
            yield ""

    def tables(self) -> Iterator[Table]:
        yield Table(COLUMNS, [row(entry) for entry in sorted(self.acls)])

    def document(self) -> object:
        return {"acls": [entry_json(entry) for entry in sorted(self.acls)]}


class Added(NamedTuple):
    """The result of `acls add`: the entries that are new, and those that were there."""

    added: Sequence[AclEntry]
    existing: Sequence[AclEntry]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for entry in self.existing:
            yield f"Acl (pattern={resource_text(entry[:3])}, entry={entry_text(entry)}) already exists."
        for resource, entries in by_resource(self.added).items():
            yield f"Adding ACLs for resource `{resource_text(resource)}`: "
            for index, entry in enumerate(entries):
                yield f"{'' if index else ' '}\t{entry_text(entry)}"
            yield ""

    def tables(self) -> Iterator[Table]:
        entries = [(*row(entry), "added") for entry in self.added]
        entries += [(*row(entry), "existed") for entry in self.existing]
        yield Table((*COLUMNS, ""), entries)

    def document(self) -> object:
        return {
            "added": [entry_json(entry) for entry in self.added],
            "existing": [entry_json(entry) for entry in self.existing],
            "errors": self.failures,
        }


class Removed(NamedTuple):
    """The result of `acls remove`: what is removed, or would be with `is_dry_run`."""

    removed: Sequence[AclEntry]
    is_dry_run: bool = False
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        verb = "Would remove" if self.is_dry_run else "Removed"
        for resource, entries in by_resource(self.removed).items():
            yield f"{verb} ACLs for resource `{resource_text(resource)}`:"
            yield from (f"\t{entry_text(entry)}" for entry in entries)
            yield ""

    def tables(self) -> Iterator[Table]:
        yield Table(COLUMNS, [row(entry) for entry in self.removed])

    def document(self) -> object:
        name = "would_remove" if self.is_dry_run else "removed"
        return {name: [entry_json(entry) for entry in self.removed], "errors": self.failures}
