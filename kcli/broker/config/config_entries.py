"""ConfigEntry: one configuration as DescribeConfigs shows it: its value, its source, its synonyms.

The synonyms of an entry are every value that could stand for it, the one that counts first: those of the
layers from the broker's own dynamic configuration down to the built-in defaults (class `ConfigHelper`). A
name in another unit (`log.retention.hours`) appears only behind a value of the entry's own main name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from kcli.broker.config.broker_definitions import BROKER_CONFIGS, broker_synonyms
from kcli.broker.config.config_definition import ConfigDefinition, InvalidConfig, UpdateMode
from kcli.broker.config.group_definitions import (
    GROUP_CONFIGS,
    acts,
    broker_synonym,
    group_config,
    of_group,
    value_of,
)
from kcli.broker.config.topic_definitions import TOPIC_CONFIGS
from kcli.protocol.configs import ConfigSource, ConfigType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.config.topic_definitions import TopicConfig


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change to one configuration; `value` is None only for DELETE."""

    name: str
    operation: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that an entry has or would have, None if it must not be shown."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration of one resource. `value` is None where there is none or it must not be shown."""

    definition: ConfigDefinition[Any]
    value: str | None
    source: ConfigSource
    read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def name(self) -> str:
        """The name of the configuration."""
        return self.definition.name

    @property
    def is_sensitive(self) -> bool:
        """True if the value must never be shown."""
        return self.definition.is_sensitive


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return every configuration of a topic, by name, as this broker sees it."""
    return [
        _topic_entry(config, row, overrides)
        for name, row in sorted(TOPIC_CONFIGS.items())
        if not row.definition.internal
    ]


def new_topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the same as CreateTopics reports it: without synonyms, and with sources in other units too."""
    entries = []
    for entry in topic_entries(config, overrides):
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        if entry.name not in overrides:
            source = _source_of_any(config, TOPIC_CONFIGS[entry.name])
        entries.append(ConfigEntry(entry.definition, entry.value, source))
    return entries


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return every configuration of a broker, by name."""
    return [
        _broker_entry(config, row, config.value(name))
        for name, row in sorted(BROKER_CONFIGS.items())
        if not row.internal
    ]


def default_broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Return the dynamic defaults of all brokers, by name: only those that are set."""
    entries = []
    for name, text in sorted(config.dynamic_default.items()):
        row = BROKER_CONFIGS[name]
        value = None if row.is_sensitive else text
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        entries.append(
            ConfigEntry(row, value, source, _read_only(row), (ConfigSynonym(name, value, source),))
        )
    return entries


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return every configuration of a group, by name, as this broker sees it."""
    effective = of_group(group_config(config), overrides)
    return [
        _group_entry(config, row, overrides, effective=effective) for _, row in sorted(GROUP_CONFIGS.items())
    ]


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the levels of loggers, by name, as entries."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(ConfigDefinition(name, ConfigType.UNKNOWN, None, ""), level, source)
        for name, level in levels.items()
    ]


def _group_entry(
    config: BrokerConfig, row: ConfigDefinition[Any], overrides: Mapping[str, str], *, effective: GroupConfig
) -> ConfigEntry:
    default = broker_synonym(row.name)
    if acts(row.name):
        value = row.to_text(value_of(effective, row.name))
        synonyms = list(_synonyms(config, default))
    else:
        value = overrides.get(row.name, row.default_text)
        synonyms = [ConfigSynonym(default, row.default_text, ConfigSource.DEFAULT_CONFIG)]
    if row.name in overrides:
        synonyms.insert(0, ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_GROUP_CONFIG))
    return ConfigEntry(row, value, _first_source(synonyms), synonyms=tuple(synonyms))


def _topic_entry(config: BrokerConfig, row: TopicConfig, overrides: Mapping[str, str]) -> ConfigEntry:
    definition = row.definition
    synonyms = list(_synonyms(config, row.synonyms[0].name)) if row.synonyms else []
    value = definition.to_text(config.topic_defaults[row.name])
    if row.name in overrides:
        value = _own_text(definition, overrides[row.name])
        synonyms.insert(0, ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    return ConfigEntry(definition, value, _first_source(synonyms), synonyms=tuple(synonyms))


def _own_text(definition: ConfigDefinition[Any], text: str) -> str | None:
    """Return an override as it counts; one that an older release let through is shown as it is."""
    try:
        return definition.to_text(definition.parse(text))
    except InvalidConfig:
        return text


def _broker_entry(config: BrokerConfig, row: ConfigDefinition[Any], value: object) -> ConfigEntry:
    synonyms = tuple(_synonyms(config, row.name))
    text = None if row.is_sensitive else row.to_text(value)
    return ConfigEntry(row, text, _first_source(synonyms), _read_only(row), synonyms)


def _read_only(row: ConfigDefinition[Any]) -> bool:
    return row.mode is UpdateMode.READ_ONLY


def _first_source(synonyms: list[ConfigSynonym] | tuple[ConfigSynonym, ...]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG


def _layers(config: BrokerConfig) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
    return (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, config.static),
    )


def _synonyms(config: BrokerConfig, name: str) -> Iterator[ConfigSynonym]:
    """Yield what gives a broker configuration a value, beginning with a value of its own name."""
    return dropwhile(lambda synonym: synonym.name != name, _all_synonyms(config, broker_synonyms(name)))


def _all_synonyms(config: BrokerConfig, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
    for source, layer in _layers(config):
        for name in names:
            if name in layer:
                yield ConfigSynonym(name, None if BROKER_CONFIGS[name].is_sensitive else layer[name], source)
    for name in names:
        default = BROKER_CONFIGS[name].default_text
        if default is not None:
            yield ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG)


def _source_of_any(config: BrokerConfig, row: TopicConfig) -> ConfigSource:
    for source, layer in _layers(config):
        if any(synonym.name in layer for synonym in row.synonyms):
            return source
    return ConfigSource.DEFAULT_CONFIG
