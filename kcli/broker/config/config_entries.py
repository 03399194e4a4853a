"""DescribedConfigs: the configurations of a resource as DescribeConfigs shows them (class `ConfigHelper`).

The synonyms of an entry are its values in all layers, from the broker's own dynamic configuration to the
built-in default; the first one is effective. A name in another unit (`log.retention.hours`) appears only
behind a value of the entry's main name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from kcli.broker.config.broker_definitions import (
    BROKER_CONFIGS,
    broker_config,
    broker_synonyms,
    find_broker_config,
)
from kcli.broker.config.config_definition import ConfigDefinition, InvalidConfig, UpdateMode, view
from kcli.broker.config.group_definitions import GROUP_CONFIGS, GroupConfig, acts, broker_synonym
from kcli.broker.config.inert_configs import inert_configs
from kcli.broker.config.topic_definitions import TOPIC_CONFIGS
from kcli.protocol.configs import ConfigResourceType, ConfigSource, ConfigType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.topic_definitions import TopicConfig


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change to one configuration; `value` is None only for DELETE."""

    name: str
    operation: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """The value of an entry in one layer; None if it must not be shown."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration of one resource; `value` is None if it is not set or must not be shown."""

    definition: ConfigDefinition[Any]
    value: str | None
    source: ConfigSource
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_sensitive(self) -> bool:
        return self.definition.is_sensitive


class DescribedConfigs:
    """The entries of topics, brokers and groups as the broker with `config` sees them, sorted by name."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default),
            (ConfigSource.STATIC_BROKER_CONFIG, config.static),
        )

    def topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return every configuration of a topic."""
        rows = [row for _, row in sorted(TOPIC_CONFIGS.items()) if not row.definition.internal]
        return [self._topic_entry(row, overrides) for row in rows]

    def new_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return a topic's entries as CreateTopics reports them: no synonyms, sources in other units too."""
        entries = []
        for entry in self.topic(overrides):
            source = ConfigSource.DYNAMIC_TOPIC_CONFIG
            if entry.name not in overrides:
                source = self._source_of_any(TOPIC_CONFIGS[entry.name])
            entries.append(ConfigEntry(entry.definition, entry.value, source))
        return entries

    def broker(self) -> list[ConfigEntry]:
        """Return every configuration of the broker, the internal ones if they are set."""
        known = {**BROKER_CONFIGS, **inert_configs()}
        names = {name for name, row in known.items() if not row.internal}
        names.update(*(layer for _, layer in self._layers))
        rows = [known.get(name) or broker_config(name) for name in sorted(names)]
        return [self._broker_entry(row, self._config.value(row.name)) for row in rows]

    def default_broker(self) -> list[ConfigEntry]:
        """Return the dynamic defaults of all brokers that are set."""
        entries = []
        for name, text in sorted(self._config.dynamic_default.items()):
            row = broker_config(name)
            value = None if row.is_sensitive else text
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            synonym = ConfigSynonym(name, value, source)
            entries.append(ConfigEntry(row, value, source, _read_only(row), (synonym,)))
        return entries

    def group(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return every configuration of a group."""
        effective = view(GroupConfig, self._config).of_group(overrides)
        return [self._group_entry(row, overrides, effective) for _, row in sorted(GROUP_CONFIGS.items())]

    def _group_entry(
        self, row: ConfigDefinition[Any], overrides: Mapping[str, str], effective: GroupConfig
    ) -> ConfigEntry:
        default = broker_synonym(row.name)
        if acts(row.name):
            value = row.to_text(effective.value_of(row.name))
            synonyms = list(self._synonyms(default))
        else:
            value = overrides.get(row.name, row.default_text)
            synonyms = [ConfigSynonym(default, row.default_text, ConfigSource.DEFAULT_CONFIG)]
        if row.name in overrides:
            synonyms.insert(0, ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_GROUP_CONFIG))
        return ConfigEntry(row, value, _first_source(synonyms), synonyms=tuple(synonyms))

    def _topic_entry(self, row: TopicConfig, overrides: Mapping[str, str]) -> ConfigEntry:
        definition = row.definition
        synonyms = list(self._synonyms(row.synonyms[0].name)) if row.synonyms else []
        value = definition.to_text(self._config.topic_defaults[row.name])
        if row.name in overrides:
            value = _own_text(definition, overrides[row.name])
            synonyms.insert(0, ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        return ConfigEntry(definition, value, _first_source(synonyms), synonyms=tuple(synonyms))

    def _broker_entry(self, row: ConfigDefinition[Any], value: object) -> ConfigEntry:
        synonyms = tuple(self._synonyms(row.name))
        text = None if row.is_sensitive else row.to_text(value)
        return ConfigEntry(row, text, _first_source(synonyms), _read_only(row), synonyms)

    def _synonyms(self, name: str) -> Iterator[ConfigSynonym]:
        """Yield the values of a broker configuration, from the first one under its own name on."""
        return dropwhile(lambda synonym: synonym.name != name, self._all_synonyms(broker_synonyms(name)))

    def _all_synonyms(self, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
        for source, layer in self._layers:
            for name in names:
                if name in layer:
                    value = None if broker_config(name).is_sensitive else layer[name]
                    yield ConfigSynonym(name, value, source)
        for name in names:
            default = broker_config(name).default_text
            if default is not None:
                yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)

    def _source_of_any(self, row: TopicConfig) -> ConfigSource:
        for source, layer in self._layers:
            if any(synonym.name in layer for synonym in row.synonyms):
                return source
        return ConfigSource.DEFAULT_CONFIG


def find_config(resource_type: int, name: str) -> ConfigDefinition[Any] | None:
    """Return the row of a configuration of topics, groups or brokers, None for an unknown name."""
    if resource_type == ConfigResourceType.TOPIC:
        row = TOPIC_CONFIGS.get(name)
        return None if row is None else row.definition
    return GROUP_CONFIGS.get(name) if resource_type == ConfigResourceType.GROUP else find_broker_config(name)


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the levels of loggers as entries."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(ConfigDefinition(name, ConfigType.UNKNOWN, None, ""), level, source)
        for name, level in levels.items()
    ]


def _own_text(definition: ConfigDefinition[Any], text: str) -> str | None:
    """Return an override as Kafka shows it; one that an older release accepted is shown unchanged."""
    try:
        return definition.to_text(definition.parse(text))
    except InvalidConfig:
        return text


def _read_only(row: ConfigDefinition[Any]) -> bool:
    return row.mode is UpdateMode.READ_ONLY


def _first_source(synonyms: Sequence[ConfigSynonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
