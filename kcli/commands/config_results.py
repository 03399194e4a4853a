"""What the verbs of `kcli configs` return, but for quotas, and what they note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.config_entities import Entity
from kcli.commands.output import Table, note
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.admin import ConfigEntry


class Synonym(NamedTuple):
    """A place a value may come from."""

    source: str
    name: str
    value: str | None


class ConfigRow(NamedTuple):
    """One configuration. A sensitive value is None."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    synonyms: Sequence[Synonym]

    def line(self) -> str:
        """Return the line of Kafka's `kafka-configs`."""
        synonyms = ", ".join(f"{source}:{name}={text(value)}" for source, name, value in self.synonyms)
        sensitive = str(self.is_sensitive).lower()
        return f"  {self.name}={text(self.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


class EntityConfigs(NamedTuple):
    """An entity and its configurations by name."""

    entity_type: str
    entity_name: str
    configs: Sequence[ConfigRow]


class Configs(NamedTuple):
    """The result of `configs describe`.

    `is_all` tells whether inherited configurations are shown, `is_missing` that the entity does not exist.
    """

    entities: Sequence[EntityConfigs]
    is_all: bool
    failures: Sequence[KcliError] = ()
    is_missing: bool = False

    def lines(self) -> Iterator[str]:
        """Return the lines of Kafka's `kafka-configs`."""
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

    def document(self) -> object:
        """Return the entities and the errors."""
        return {"entities": self.entities, "failures": self.failures}

    def tables(self) -> Iterator[Table]:
        """Return a table for each entity."""
        for kind, name, rows in self.entities:
            yield Table(
                ("Name", "Value", "Source", "Read only"),
                [(row.name, text(row.value), row.source, row.is_read_only) for row in rows],
                str(Entity(kind, name)).removeprefix("the "),
            )


class Altered(NamedTuple):
    """The entity whose configuration was altered, or only could be: `altered` tells which."""

    entity: Entity
    altered: bool

    def lines(self) -> Sequence[str]:
        """Return the line of Kafka's `kafka-configs`, which always alters."""
        if not self.altered:
            return []
        if self.entity.name:
            return [f"Completed updating config for {self.entity}."]
        return [f"Completed updating default config for {self.entity.kind} in the cluster."]

    def document(self) -> object:
        """Return the entity, and whether it was altered."""
        return {
            "entity_type": self.entity.kind,
            "entity_name": self.entity.name or "",
            "altered": self.altered,
        }


def text(value: str | None) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else value


def config_row(entry: ConfigEntry) -> ConfigRow:
    """Return a described configuration with the names of its sources."""
    synonyms = [Synonym(synonym.source.name, synonym.name, synonym.value) for synonym in entry.synonyms]
    return ConfigRow(
        entry.name, entry.value, entry.source.name, entry.is_sensitive, entry.is_read_only, synonyms
    )


def tell_of_validation(entity: str) -> None:
    """Note that nothing was changed of an entity."""
    note(f"dry run: nothing was changed, the broker accepts this for {entity}")
