"""Checks of the names of configurations: to delete, misspelled, or without effect.

A broker accepts any name to delete. So kcli refuses names that do not exist. Kafka's tool also refuses a name
without a value of its own; for kcli it is no error to return to a default twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.commands.shared.arguments import repeat_hint
from kcli.errors import KcliError, nearest_hint
from kcli.protocol.configs import NO_EFFECT
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kcli.client.admin import ConfigResource
    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError


async def refuse_unknown(client: Client, resources: Iterable[ConfigResource], names: Sequence[str]) -> None:
    """Raise for the first name that one of the resources does not have.

    The default of all brokers lists only what is set, so it cannot be checked. A resource that cannot be
    described is skipped: the alteration fails for the same reason.
    """
    from kcli.client import admin

    kinds = admin.ConfigResourceType
    told = [each for each in resources if each.name and each.type in (kinds.TOPIC, kinds.BROKER, kinds.GROUP)]
    if not names or not told:
        return
    for resource, answer in (await admin.describe_configs(client, told, names=names)).items():
        if isinstance(answer, KcliError):
            continue
        for name in sorted({*names} - {entry.name for entry in answer}):
            raise KcliError(
                f"{resource.type.name.lower()} {resource.name} has no configuration `{name}`",
                hint=likely_name(await known_names(client, resource), [name]) or describe_hint(resource),
            )


async def name_hint(
    client: Client,
    results: Mapping[ConfigResource, KafkaError | None],
    values: Mapping[str, str],
    *,
    repeated: str | None = None,
) -> str | None:
    """Return the name probably meant, or the command that shows all, if an alteration was refused.

    `repeated` is the option that takes one configuration, where several do not go in one with commas.
    """
    for resource, error in results.items():
        if error is not None and error.wants_hint and error.code is ErrorCode.INVALID_CONFIG:
            known = await known_names(client, resource)
            several = None if repeated is None else repeat_hint(values, repeated, known)
            return several or likely_name(known, values) or describe_hint(resource)
    return None


def describe_hint(resource: ConfigResource) -> str | None:
    """Return the command that shows the configurations of a resource, None for a kind without such."""
    from shlex import quote

    from kcli.client import admin

    kinds = admin.ConfigResourceType
    options = {kinds.TOPIC: "", kinds.BROKER: "--broker ", kinds.GROUP: "--group "}
    if resource.type not in options:
        return None
    entity = options[resource.type] + (quote(resource.name) if resource.name else "ID")
    return f"`kcli configs describe {entity} --all` shows the names and values"


async def warn_of_no_effect(client: Client, resource: ConfigResource, names: Iterable[str]) -> None:
    """Warn of new values that the broker stores and does not act on, as its documentation of them says."""
    from kcli.client import admin
    from kcli.commands.shared.output import warn

    inert: list[str] = []
    with suppress(KcliError):  # The alteration is done.
        if resource.type == admin.ConfigResourceType.BROKER and not resource.name:
            # The default of all brokers lists only what is set.
            nodes = (await admin.describe_cluster(client)).nodes
            resource = admin.ConfigResource(resource.type, str(nodes[0].node_id))
        answer = (
            await admin.describe_configs(client, [resource], names=sorted(names), include_documentation=True)
        )[resource]
        entries = () if isinstance(answer, KcliError) else answer
        inert += [f"`{each.name}`" for each in entries if (each.documentation or "").endswith(NO_EFFECT)]
    if inert:
        warn(f"{', '.join(inert)} {'has' if len(inert) == 1 else 'have'} no effect in kcli")


async def known_names(client: Client, resource: ConfigResource) -> list[str]:
    """Return the names of a resource's configurations, none if that fails."""
    from kcli.client import admin

    with suppress(KcliError):  # It is only for the hint of another error.
        answer = (await admin.describe_configs(client, [resource]))[resource]
        return [] if isinstance(answer, KcliError) else [entry.name for entry in answer]
    return []


def likely_name(known: Collection[str], names: Iterable[str]) -> str | None:
    """Return a hint for the first of `names` that is unknown, None if all are known or none is similar."""
    unknown = next((name for name in names if name not in known), None)
    return None if unknown is None else nearest_hint(unknown, known)
