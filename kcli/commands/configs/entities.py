"""The entities of `kcli configs`: topics, brokers, broker loggers, groups, client metrics; and its results.

An entity is named with Kafka's `--entity-type` and `--entity-name`, or with the option of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.configs.quotas import KINDS as QUOTA_KINDS
from kcli.commands.configs.quotas import QuotaEntity, chosen_quotas
from kcli.commands.groups.options import complete_group
from kcli.commands.shared.arguments import LARGEST_INT32, not_empty, whole_number
from kcli.commands.shared.options import TopicArgument, TopicOption, one_topic_or_none
from kcli.commands.shared.output import Table, note
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from kcli.client.admin import ConfigEntry, ConfigResource
    from kcli.client.client import Client


KINDS = {
    "topics": "TOPIC",
    "brokers": "BROKER",
    "broker-loggers": "BROKER_LOGGER",
    "groups": "GROUP",
    "client-metrics": "CLIENT_METRICS",
}
"""The entity types of Kafka's tool, and what the protocol calls them."""

_ALL_KINDS = [*KINDS, *QUOTA_KINDS]
KIND_NAMES = ", ".join(_ALL_KINDS[:-1]) + f" or {_ALL_KINDS[-1]}"
HINT = (
    "TOPIC, --broker ID, --broker-defaults, --group ID, --user NAME, --client ID, "
    "or --entity-type with --entity-name"
)


class Entity(NamedTuple):
    """An entity with a configuration; name None: all of a kind, "": the default of all brokers."""

    kind: str
    name: str | None

    @property
    def resource(self) -> ConfigResource:
        from kcli.client.admin import ConfigResource, ConfigResourceType

        return ConfigResource(ConfigResourceType[KINDS[self.kind]], self.name or "")

    @property
    def own_source(self) -> str | None:
        """Return the source of values set for this entity itself, None if every source is."""
        match self.kind:
            case "brokers" if not self.name:
                return "DYNAMIC_DEFAULT_BROKER_CONFIG"
            case "broker-loggers":
                return None
            case kind:
                return f"DYNAMIC_{KINDS[kind]}_CONFIG"

    def __str__(self) -> str:
        return (
            f"{self.kind.removesuffix('s')} {self.name}" if self.name else f"the default of all {self.kind}"
        )


class EntityOptions(NamedTuple):
    """The options that name an entity: one for each kind, and those of Kafka's tool."""

    topic: TopicArgument = None
    topic_option: TopicOption = None
    broker: Annotated[str | None, typer.Option(metavar="ID", help="A broker")] = None
    broker_defaults: Annotated[bool, typer.Option("--broker-defaults", help="The default of all brokers")] = (
        False
    )
    broker_logger: Annotated[str | None, typer.Option(metavar="ID", help="The log levels of a broker")] = None
    group: Annotated[
        str | None, typer.Option(metavar="ID", help="A group", autocompletion=complete_group)
    ] = None
    client_metrics: Annotated[
        str | None, typer.Option(metavar="NAME", help="A client metrics subscription")
    ] = None
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Quotas of a user")] = None
    user_defaults: Annotated[bool, typer.Option("--user-defaults", help="The default quotas of users")] = (
        False
    )
    client_id: Annotated[str | None, typer.Option("--client", metavar="ID", help="Quotas of a client id")] = (
        None
    )
    client_defaults: Annotated[
        bool, typer.Option("--client-defaults", help="The default quotas of client ids")
    ] = False
    entity_type: Annotated[list[str] | None, typer.Option(metavar="TYPE", help=KIND_NAMES)] = None
    entity_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The topic, group, user or client id, or the broker's id"),
    ] = None
    entity_default: Annotated[
        bool,
        typer.Option(
            "--entity-default", help="The default of all brokers, users or clients, as --entity-type says"
        ),
    ] = False

    def names(self) -> tuple[str | None, ...]:
        """Return the given name of each kind, in the order of `KINDS`."""
        topic = one_topic_or_none(self.topic, self.topic_option)
        group = None if self.group is None else not_empty(self.group, "group")
        return (topic, self.broker, self.broker_logger, group, self.client_metrics)

    def quotas(self) -> QuotaEntity | None:
        """Return the entity whose quotas are meant, None if no user and no client is named."""
        named = {"users": (self.user, self.user_defaults), "clients": (self.client_id, self.client_defaults)}
        types, names = self.entity_type or (), self.entity_name or ()
        chosen = chosen_quotas(named, types, names, is_default=self.entity_default)
        others = (*self.names(), self.broker_defaults or None)
        if chosen is not None and any(other is not None for other in others):
            raise UsageError("exactly one entity must be given", hint=HINT)
        return chosen

    def entity(self) -> Entity:
        """Return the one entity named with the option of its kind or with Kafka's `--entity-type`."""
        types, entity_names = self.entity_type or (), self.entity_name or ()
        given = [
            Entity(kind, name) for kind, name in zip(KINDS, self.names(), strict=True) if name is not None
        ]
        if self.broker_defaults:
            given.append(Entity("brokers", ""))
        given += [Entity(kind, next(iter(entity_names), None)) for kind in types]
        if len(given) != 1 or len(entity_names) > len(types):
            raise UsageError("exactly one entity must be given", hint=HINT)
        [entity] = given
        if entity.kind not in KINDS:
            raise UsageError(f"`--entity-type` cannot be {entity.kind}", hint=KIND_NAMES)
        if self.entity_default:
            if entity.kind != "brokers" or entity.name:
                raise UsageError("`--entity-default` goes with `--entity-type brokers` alone")
            return Entity("brokers", "")
        is_broker = entity.kind in ("brokers", "broker-loggers")
        if entity.name and is_broker and whole_number(entity.name, LARGEST_INT32) is None:
            raise UsageError(
                f"a broker's name is its id: {entity.name}",
                hint="`kcli cluster nodes` shows the brokers there are",
            )
        return entity


async def all_entities(client: Client, kind: str) -> tuple[list[Entity], list[KcliError]]:
    """Return all entities of a kind, including the default of all brokers, and the errors."""
    from kcli.client import admin

    failures: list[KcliError] = []
    match kind:
        case "topics":
            names = [listing.name for listing in await admin.list_topics(client)]
        case "brokers" | "broker-loggers":
            names = [str(node.node_id) for node in (await admin.describe_cluster(client)).nodes]
            names += [""] if kind == "brokers" else []
        case "groups":
            names, failures = await group_names(client)
        case _:
            kinds = [admin.ConfigResourceType.CLIENT_METRICS]
            names = [each.name for each in await admin.list_config_resources(client, kinds)]
    return [Entity(kind, name) for name in names], failures


async def exists(client: Client, entity: Entity) -> bool:
    """Tell whether an entity without its own configuration exists, or may exist."""
    from kcli.client import admin

    match entity.kind:
        case "groups":
            listed = await admin.list_groups(client)
            return bool(listed.errors) or entity.name in {group.group_id for group in listed.groups}
        case kind:
            return kind != "client-metrics"


async def group_names(client: Client) -> tuple[list[str], list[KcliError]]:
    """Return the existing groups and those that only have a configuration, and the errors."""
    from kcli.client import admin
    from kcli.client.network.connection import UnsupportedVersion
    from kcli.commands.groups.lookup import list_consumer_groups

    groups, failures = await list_consumer_groups(client)
    names = {group.group_id for group in groups}
    with suppress(UnsupportedVersion):  # before 3.7 groups had no configuration
        configured = await admin.list_config_resources(client, [admin.ConfigResourceType.GROUP])
        names |= {resource.name for resource in configured}
    return sorted(names), failures


class Synonym(NamedTuple):
    source: str
    name: str
    value: str | None


class ConfigRow(NamedTuple):
    """A configuration. A sensitive value is None, and so is documentation that was not asked for."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    synonyms: Sequence[Synonym]
    documentation: str | None = None

    def line(self) -> str:
        synonyms = ", ".join(f"{source}:{name}={text(value)}" for source, name, value in self.synonyms)
        sensitive = str(self.is_sensitive).lower()
        return f"  {self.name}={text(self.value)} sensitive={sensitive} synonyms={{{synonyms}}}"

    def document(self) -> dict[str, object]:
        fields = self._asdict()
        if self.documentation is None:
            del fields["documentation"]
        return fields


class EntityConfigs(NamedTuple):
    entity_type: str
    entity_name: str
    configs: Sequence[ConfigRow]


class Configs(NamedTuple):
    """The result of `configs describe`; `is_all`: inherited values too, `is_missing`: no such entity."""

    entities: Sequence[EntityConfigs]
    is_all: bool
    failures: Sequence[KcliError] = ()
    is_missing: bool = False

    def lines(self) -> Iterator[str]:
        scope = "All" if self.is_all else "Dynamic"
        for kind, name, rows in self.entities:
            if self.is_missing:
                yield f"The {kind.removesuffix('s')} '{name}' doesn't exist and doesn't have dynamic config."
            elif name:
                yield f"{scope} configs for {kind.removesuffix('s')} {name} are:"
            else:
                yield f"Default configs for {kind} in the cluster are:"
            for row in rows:
                yield row.line()
                if row.documentation is not None:
                    yield f"    {row.documentation}"

    def document(self) -> object:
        entities = [
            {**each._asdict(), "configs": [row.document() for row in each.configs]} for each in self.entities
        ]
        return {"entities": entities, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        for kind, name, rows in self.entities:
            told = any(row.documentation is not None for row in rows)
            yield Table(
                ("Name", "Value", "Source", "Read only", *(("Documentation",) if told else ())),
                [
                    (
                        *(row.name, text(row.value), row.source, row.is_read_only),
                        *((row.documentation,) if told else ()),
                    )
                    for row in rows
                ],
                str(Entity(kind, name)).removeprefix("the "),
            )


class AlteredConfigs(NamedTuple):
    """The entity whose configuration was altered; `altered` is False for a dry run."""

    entity: Entity
    altered: bool

    def lines(self) -> Sequence[str]:
        if not self.altered:
            return []
        if self.entity.name:
            return [f"Completed updating config for {self.entity}."]
        return [f"Completed updating default config for {self.entity.kind} in the cluster."]

    def document(self) -> object:
        return {
            "entity_type": self.entity.kind,
            "entity_name": self.entity.name or "",
            "altered": self.altered,
        }


def text(value: str | None) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else value


def config_row(entry: ConfigEntry) -> ConfigRow:
    synonyms = [Synonym(synonym.source.name, synonym.name, synonym.value) for synonym in entry.synonyms]
    return ConfigRow(
        *(entry.name, entry.value, entry.source.name, entry.is_sensitive, entry.is_read_only, synonyms),
        entry.documentation or None,  # Apache Kafka sends an empty one where none was asked for.
    )


def note_validation(entity: str) -> None:
    note(f"dry run: nothing was changed, the broker accepts this for {entity}")
