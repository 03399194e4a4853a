"""Quotas of users and clients, as `kcli configs` describes and alters them.

An entity is a user, a client, or a client of a user, each by name or the default. It is named with `--user`,
`--client` and their `-defaults`, or with Kafka's `--entity-type users|clients`, which may occur twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.java import java_double
from kcli.commands.shared.output import Table
from kcli.errors import KcliError, UsageError, nearest_hint

if TYPE_CHECKING:
    from kcli.client.admin import QuotaFilter, QuotaParts
    from kcli.client.client import Client

KINDS = {"users": "user", "clients": "client-id"}
"""The entity types of Kafka's tool, and what the protocol calls them."""
BYTE_RATES = ("producer_byte_rate", "consumer_byte_rate")
KNOWN = (*BYTE_RATES, "request_percentage", "controller_mutation_rate")
MOST = 2.0**63
"""The largest 64-bit number as a double, which is the type in the protocol."""
FRACTION = 1e-6
"""The fraction that Kafka tolerates in a whole number."""

_PRINCIPAL = {"user": "user-principal", "client-id": "client-id"}


class QuotaEntity(NamedTuple):
    """An entity with quotas: a name for each type, "" for the default, None for all of the type."""

    names: Mapping[str, str | None]

    @property
    def parts(self) -> QuotaParts:
        """Return the entity of the protocol; no name may be None."""
        return tuple((KINDS[kind], name or None) for kind, name in self.names.items())

    @property
    def filters(self) -> list[QuotaFilter]:
        """Return the filters that find the entity, or all entities of a type."""
        from kcli.client.admin import QuotaFilter, QuotaMatch

        return [
            QuotaFilter(KINDS[kind], QuotaMatch.EXACT, name)
            if name
            else QuotaFilter(KINDS[kind], QuotaMatch.ANY if name is None else QuotaMatch.DEFAULT)
            for kind, name in self.names.items()
        ]

    def __str__(self) -> str:
        return " and ".join(
            f"{kind.removesuffix('s')} {name}" if name else f"the default of all {kind}"
            for kind, name in self.names.items()
        )


class QuotaRow(NamedTuple):
    """An entity with its quotas; the name of a default is None."""

    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]

    def line(self) -> str:
        named = (
            f"the default {shown}" if self.entity[type] is None else f"{shown} '{self.entity[type]}'"
            for type, shown in _PRINCIPAL.items()
            if type in self.entity
        )
        quotas = ", ".join(f"{key}={java_double(value)}" for key, value in self.quotas.items())
        return f"Quota configs for {', '.join(named)} are {quotas}"


class Quotas(NamedTuple):
    """The result of `configs describe` of users and clients."""

    rows: Sequence[QuotaRow]

    def lines(self) -> Iterator[str]:
        for row in self.rows:
            yield row.line()

    def document(self) -> object:
        rows = [{"entity": _fields(row.entity), "quotas": row.quotas} for row in self.rows]
        return {"entities": rows, "failures": []}

    def tables(self) -> Iterator[Table]:
        yield Table(
            ("User", "Client id", "Quota", "Value"),
            [
                (_shown(row, "user"), _shown(row, "client-id"), key, f"{value:.15g}")
                for row in self.rows
                for key, value in row.quotas.items()
            ],
        )


class AlteredQuotas(NamedTuple):
    """The entity whose quotas were altered; `altered` is False for a dry run."""

    entity: QuotaEntity
    altered: bool

    def lines(self) -> Sequence[str]:
        """Return the line of `kafka-configs`, which names only the first part."""
        if not self.altered:
            return []
        kind, name = next(iter(self.entity.names.items()))
        if name:
            return [f"Completed updating config for {kind.removesuffix('s')} {name}."]
        return [f"Completed updating default config for {kind} in the cluster."]

    def document(self) -> object:
        return {"entity": _fields(dict(self.entity.parts)), "altered": self.altered}


def chosen_quotas(
    named: Mapping[str, tuple[str | None, bool]],
    types: Sequence[str],
    names: Sequence[str],
    *,
    is_default: bool,
) -> QuotaEntity | None:
    """Return the entity whose quotas are meant, None if no user and no client is named.

    `named` has the name, or True for the default, from the options of each kind; `types` and `names` of
    `--entity-type` and `--entity-name` match by their order.
    """
    found: dict[str, str | None] = {}
    for kind, (name, is_kinds_default) in named.items():
        if name is not None or is_kinds_default:
            if name is not None and is_kinds_default:
                raise UsageError(f"name one of {kind} or their default, not both")
            found[kind] = name or ""
            if name == "":
                raise UsageError(
                    f"the name of one of {kind} is empty",
                    hint=f"`--{kind.removesuffix('s')}-defaults` are the default quotas",
                )
    if not found and not any(type in KINDS for type in types):
        return None
    if len({*found, *types}) != len(found) + len(types) or not {*types} <= {*KINDS}:
        raise UsageError(
            "quotas belong to a user, a client, or a client of a user",
            hint="`--user NAME`, `--client ID`, or both",
        )
    if len(names) + is_default > len(types) or (is_default and names):
        raise UsageError(
            "it is not clear which type has which name", hint="`--user-defaults --client ID`, for example"
        )
    if "" in names:
        raise UsageError("the name of an entity is empty", hint="`--entity-default` is the default")
    for number, type in enumerate(types):
        found[type] = "" if is_default else names[number] if number < len(names) else None
    return QuotaEntity({kind: found[kind] for kind in KINDS if kind in found})


async def describe_quotas(client: Client, entity: QuotaEntity) -> Quotas:
    from kcli.client import admin
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure

    try:
        found = await admin.describe_client_quotas(client, entity.filters)
    except KcliError as error:
        raise failure("cannot describe quotas", error) from error
    rows = [QuotaRow(dict(parts), dict(sorted(quotas.items()))) for parts, quotas in found]
    if not rows:
        note("there are no such quotas" if None in entity.names.values() else f"{entity} has no quotas")
    return Quotas(sorted(rows, key=lambda row: [_order(row, type) for type in KINDS.values()]))


async def alter_quotas(
    client: Client, entity: QuotaEntity, quotas: Mapping[str, float | None], *, validate_only: bool
) -> AlteredQuotas:
    """Set and remove an entity's quotas, or only let the broker validate the change.

    Kafka's line names only the first part of the entity, so a note names the whole.
    """
    from kcli.client import admin
    from kcli.commands.shared.output import note
    from kcli.commands.shared.session import failure

    refused = await admin.alter_client_quotas(client, entity.parts, quotas, validate_only=validate_only)
    if refused is not None:
        hint = next((quota_hint(key) for key in quotas if key not in KNOWN), None)
        raise failure(f"cannot alter the quotas of {entity}", refused, hint=hint)
    if not validate_only and len(entity.names) > 1:
        note(f"changed: the quotas of {entity}")
    return AlteredQuotas(entity, altered=not validate_only)


def quota_changes(added: Mapping[str, str], deleted: Sequence[str]) -> dict[str, float | None]:
    """Return the new values of quotas, None to remove one; at least one is required."""
    changes: dict[str, float | None] = {key: quota_value(key, text) for key, text in added.items()}
    for key in deleted:
        if key not in KNOWN:
            raise UsageError(f"there is no quota `{key}`", hint=quota_hint(key))
        changes[key] = None
    if not changes:
        raise UsageError("nothing to alter", hint="`--add name=value` or `--delete name`")
    return changes


def quota_hint(key: str) -> str:
    """Return the quota that was probably meant, else all quotas."""
    return nearest_hint(key, KNOWN) or f"the quotas are {', '.join(KNOWN)}"


def quota_value(key: str, text: str) -> float:
    """Return the value of a quota; raise `UsageError` for a value that Kafka refuses."""
    is_rate = key in BYTE_RATES
    sense = "bytes a second, as 1048576" if is_rate else None
    try:
        value = float(text)
    except ValueError:
        value = nan
    # Python also takes `1_0` for ten.
    if not isfinite(value) or "_" in text or not text.isascii():
        raise UsageError(f"`{key}` is not a number: {text}", hint=sense)
    if value <= 0:
        raise UsageError(f"`{key}` is not above 0: {text}", hint=f"`--delete {key}` removes the quota")
    if is_rate and (value > MOST or abs(value - round(value)) > FRACTION):
        raise UsageError(f"`{key}` is not a whole number of 64 bits: {text}", hint=sense)
    return value


def _fields(entity: Mapping[str, str | None]) -> dict[str, str | None]:
    return {type.replace("-", "_"): name for type, name in entity.items()}


def _shown(row: QuotaRow, type: str) -> str:
    if type not in row.entity:
        return ""
    name = row.entity[type]
    return "(default)" if name is None else name


def _order(row: QuotaRow, type: str) -> tuple[bool, bool, str]:
    """Sort named entities first, then the default, then those without the type."""
    name = row.entity.get(type)
    return type not in row.entity, name is None, name or ""
