"""`kcli configs`: describe and alter configurations of topics, brokers and groups, and quotas of clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.configs.entities import (
    AlteredConfigs,
    Configs,
    Entity,
    EntityConfigs,
    EntityOptions,
    all_entities,
    config_row,
    exists,
    note_validation,
)
from kcli.commands.configs.quotas import AlteredQuotas, Quotas, alter_quotas, describe_quotas, quota_changes
from kcli.commands.shared.arguments import read_properties, without_units
from kcli.commands.shared.options import ClusterAddress, complete_config
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import ConfigAlteration
    from kcli.client.client import Client

app = typer.Typer(
    name="configs",
    help="Describe and alter configurations of topics, brokers and groups, and quotas of clients.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

COMMA_OUTSIDE_BRACKETS = re.compile(r",(?=[^\]]*(?:\[|$))")


@command(app, "describe", example="kcli configs describe orders --all")
async def describe(
    options: EntityOptions,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Also inherited and default values")] = False,
    documentation: Annotated[
        bool,
        typer.Option("--documentation", help="Also what the broker says of each, as `No effect in kcli.`"),
    ] = False,
    cluster: ClusterAddress,
) -> Configs | Quotas:
    """Show the configuration of a topic, broker, group or client, or of all of an entity type."""
    quotas = options.quotas()
    if quotas is not None:
        async with cluster.connect() as client:
            return await describe_quotas(client, quotas)
    entity = options.entity()
    async with cluster.connect() as client:
        if entity.name is None:
            entities, failures = await all_entities(client, entity.kind)
            found, refused = await _described(
                client, entities, show_all=show_all, documentation=documentation
            )
            return Configs(found, show_all, [*failures, *refused])
        found, refused = await _described(client, [entity], show_all=show_all, documentation=documentation)
        if refused:
            raise refused[0]
        has_none = bool(found) and not found[0].configs
        is_missing = has_none and not await exists(client, entity)
    if has_none:
        _note_none(entity, is_missing=is_missing)
    return Configs(found, show_all, is_missing=is_missing)


async def _described(
    client: Client, entities: Sequence[Entity], *, show_all: bool, documentation: bool
) -> tuple[list[EntityConfigs], list[KcliError]]:
    """Return the configurations of entities, their own or all, and the errors."""
    from kcli.client import admin
    from kcli.commands.shared.session import failure

    answers = await admin.describe_configs(
        client,
        [each.resource for each in entities],
        include_synonyms=True,
        include_documentation=documentation,
    )
    found, failures = list[EntityConfigs](), list[KcliError]()
    for each in entities:
        answer = answers[each.resource]
        if isinstance(answer, KcliError):
            failures.append(failure(f"cannot describe the configuration of {each}", answer))
        else:
            rows = [config_row(entry) for entry in sorted(answer, key=lambda entry: entry.name)]
            own = None if show_all else each.own_source
            shown = [row for row in rows if own in (None, row.source)]
            found.append(EntityConfigs(each.kind, each.name or "", shown))
    return found, failures


def _note_none(entity: Entity, *, is_missing: bool) -> None:
    from kcli.commands.shared.output import note

    if is_missing:
        note(f"{entity} does not exist and has no configuration of its own")
    else:
        more = ", `--all` shows what it inherits" if entity.name else ""
        note(f"{entity} has no configuration of its own{more}")


@command(app, "alter", example="kcli configs alter orders --add retention.ms=60000,cleanup.policy=compact")
async def alter(
    options: EntityOptions,
    *,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            "--add-config",
            metavar="NAME=VALUE,...",
            autocompletion=complete_config,
            help="Values to set; a list in brackets: name=[a,b]; durations and sizes may have units: "
            "7d, 64MiB",
        ),
    ] = None,
    add_config_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A properties file of values to set")
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete",
            "--delete-config",
            metavar="NAME,...",
            autocompletion=complete_config,
            help="Names to return to their default",
        ),
    ] = None,
    append: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,...", autocompletion=complete_config, help="Items to add to lists"),
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...", autocompletion=complete_config, help="Items to take from lists"
        ),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Let the broker check, but change nothing")
    ] = False,
    cluster: ClusterAddress,
) -> AlteredConfigs | AlteredQuotas:
    """Set, reset, extend or shorten configurations of a topic, a group or a broker, and quotas of clients."""
    from kcli.client import admin
    from kcli.commands.configs.names import name_hint, refuse_unknown, warn_of_no_effect
    from kcli.commands.shared.session import failure

    added = {**read_properties(add_config_file), **without_units(parse_pairs(add, "--add"))}
    quotas = options.quotas()
    if quotas is not None:
        if None in quotas.names.values():
            raise UsageError("`--entity-name` or `--entity-default` is missing")
        if append or subtract:
            raise UsageError(
                "quotas are numbers: `--append` and `--subtract` do not apply",
                hint="`--add name=value` sets one",
            )
        changes = quota_changes(added, parse_names(delete))
        async with cluster.connect() as client:
            altered = await alter_quotas(client, quotas, changes, validate_only=validate_only)
        if validate_only:
            note_validation(str(quotas))
        return altered
    entity = options.entity()
    if entity.name is None:
        raise UsageError("`--entity-name` or `--entity-default` is missing")
    deleted = parse_names(delete)
    appended, subtracted = parse_pairs(append, "--append"), parse_pairs(subtract, "--subtract")
    operations = alterations(added, deleted, appended, subtracted)
    async with cluster.connect() as client:
        await refuse_unknown(client, [entity.resource], deleted)
        results = await admin.incremental_alter_configs(
            client, {entity.resource: operations}, validate_only=validate_only
        )
        values = {**subtracted, **appended, **added}
        hint = await name_hint(client, results, values)
        refused = results[entity.resource]
        if values and refused is None:
            await warn_of_no_effect(client, entity.resource, values)
    if refused is not None:
        raise failure(f"cannot alter the configuration of {entity}", refused, hint=hint)
    if validate_only:
        note_validation(str(entity))
    return AlteredConfigs(entity, altered=not validate_only)


def parse_pairs(options: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return `a=1,b=[2,3]` strings as a dict; a comma inside brackets belongs to the value."""
    pairs: dict[str, str] = {}
    for item in options or ():
        before = ""
        for pair in COMMA_OUTSIDE_BRACKETS.split(item):
            name, equals, value = pair.partition("=")
            if not equals or not name.strip():
                whole = f"{before}=[{pairs.get(before)},{pair.strip()}]"
                hint = f"a value with commas needs brackets: {whole}" if before else None
                raise UsageError(f"`{option}` needs name=value: {pair}", hint=hint)
            before = name.strip()
            pairs[name.strip()] = value.replace("[", "").replace("]", "").strip()
    return pairs


def parse_names(options: Sequence[str] | None) -> list[str]:
    """Return the names in comma-separated strings."""
    return [name.strip() for item in options or () for name in item.split(",") if name.strip()]


def alterations(
    added: dict[str, str], deleted: Sequence[str], appended: dict[str, str], subtracted: dict[str, str]
) -> list[ConfigAlteration]:
    """Return the changes in the order set, delete, append, subtract; at least one is required."""
    from kcli.client.admin import ConfigAlteration, ConfigOperation

    operations = [
        *(ConfigAlteration(name, ConfigOperation.SET, value) for name, value in added.items()),
        *(ConfigAlteration(name, ConfigOperation.DELETE) for name in deleted),
        *(ConfigAlteration(name, ConfigOperation.APPEND, value) for name, value in appended.items()),
        *(ConfigAlteration(name, ConfigOperation.SUBTRACT, value) for name, value in subtracted.items()),
    ]
    if not operations:
        raise UsageError(
            "nothing to alter", hint="`--add name=value`, `--delete name`, `--append`, `--subtract`"
        )
    return operations
