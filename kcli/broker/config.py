"""BrokerConfig: a broker's effective configuration, layer over layer.

A value comes from the first of: the broker's own dynamic configuration, the cluster's dynamic default, the
static properties the broker was started with, the built-in default (KIP-226). An instance never changes;
a dynamic change makes a new one with `with_dynamic`. Settings read as attributes named as the
configurations with underscores; a topic's configuration comes from `log_config`.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.broker_configs import BROKER_CONFIGS, SETTINGS, BrokerSettings
from kcli.broker.config_constraints import check_constraints, doubts
from kcli.broker.config_definition import InvalidConfig
from kcli.broker.inert_configs import INERT_CONFIGS, is_inert, warning
from kcli.broker.listener_config import (
    ListenerConfig,
    check_distinct_ports,
    check_routable,
    parse_listeners,
    parse_protocol_map,
)
from kcli.broker.topic_configs import TOPIC_CONFIGS
from kcli.broker.topic_overrides import check_topic_configs, parse_topic_configs
from kcli.errors import UsageError, nearest_hint
from kcli.storage.log.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.topic_config import TopicConfig

_EMPTY: Mapping[str, str] = MappingProxyType({})
_LOG_CONFIG_FIELDS = frozenset(LogConfig.__dataclass_fields__)


class BrokerConfig(BrokerSettings):
    """An immutable set of effective values. Make one with `from_properties`.

    `static`, `dynamic_default` and `dynamic_broker` are the layers as text, by configuration name;
    `warnings` has one line for each property that was accepted and has no effect.
    """

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    dynamic_broker: Mapping[str, str]
    warnings: tuple[str, ...]
    _values: Mapping[str, Any]

    def __init__(
        self,
        *,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] = _EMPTY,
        dynamic_broker: Mapping[str, str] = _EMPTY,
        warnings: tuple[str, ...] = (),
    ) -> None:
        values = {name: row.default for name, row in BROKER_CONFIGS.items()}
        for layer in (static, dynamic_default, dynamic_broker):
            values.update({name: BROKER_CONFIGS[name].parse(text) for name, text in layer.items()})
        values["broker.id"] = values["node.id"]
        fields = vars(self)
        fields.update(static=static, dynamic_default=dynamic_default, dynamic_broker=dynamic_broker)
        fields.update(warnings=warnings, _values=MappingProxyType(values))
        fields.update({row.field: values[name] for name, row in SETTINGS.items()})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a BrokerConfig does not change: {name}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Check and type a broker's static properties.

        Raises `UsageError` for a name Kafka does not have, with the nearest known one as a hint, and for
        a value that cannot be. What Kafka knows and kcli does not act on becomes a warning.
        """
        static: dict[str, str] = {}
        warnings = []
        for name, text in properties.items():
            if name in BROKER_CONFIGS:
                static[name] = text
            elif not is_inert(name):
                raise _unknown_name(name)
            if line := warning(name, text):
                warnings.append(line)
        _unify_node_id(static)
        try:
            config = cls(static=MappingProxyType(static), warnings=tuple(warnings))
            config._check()
            if more := doubts(config):
                config = cls(static=config.static, warnings=(*warnings, *more))
        except InvalidConfig as error:
            raise UsageError(error.message, hint=error.hint) from error
        return config

    def with_dynamic(self, *, broker: Mapping[str, str], default: Mapping[str, str]) -> BrokerConfig:
        """Return this configuration under other dynamic layers.

        What is stored but not known, or no longer valid, is left out: an old record must not stop a broker.
        """
        return BrokerConfig(
            static=self.static,
            dynamic_default=_usable(default),
            dynamic_broker=_usable(broker),
            warnings=self.warnings,
        )

    def value(self, name: str) -> Any:  # noqa: ANN401  # the row says which type
        """Return the effective value of any configuration in the table, None where there is none."""
        return self._values[name]

    @cached_property
    def topic_defaults(self) -> Mapping[str, Any]:
        """The typed configuration of a topic that overrides nothing, by topic configuration name."""
        return MappingProxyType({name: self._topic_default(row) for name, row in TOPIC_CONFIGS.items()})

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """Return what a log acts on: the topic's overrides over this broker's defaults.

        Overrides that are stored but not known, or no longer valid, are left out.
        """
        values = dict(self.topic_defaults)
        for name, text in overrides.items():
            try:
                values |= parse_topic_configs({name: text})
            except InvalidConfig:
                continue
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        fields = {name.replace(".", "_"): value for name, value in values.items()}
        fields["cleanup_policy"] = frozenset(values["cleanup.policy"])
        return LogConfig(**{name: value for name, value in fields.items() if name in _LOG_CONFIG_FIELDS})

    @cached_property
    def log_directories(self) -> tuple[str, ...]:
        """The configured log directories, empty if neither `log.dirs` nor `log.dir` is given."""
        return self.log_dirs or self.log_dir or ()

    @cached_property
    def listener_configs(self) -> tuple[ListenerConfig, ...]:
        """The listeners to open: all but those that are for controllers only."""
        return self._without_controllers(self._parse_listeners(self.listeners, "listeners"))

    @cached_property
    def advertised_listener_configs(self) -> tuple[ListenerConfig, ...]:
        """What clients are told, in the order of `listeners`; a listener not advertised is left out."""
        if self.advertised_listeners is None:
            return self.listener_configs
        advertised = self._parse_listeners(self.advertised_listeners, "advertised.listeners")
        by_name = {listener.name: listener for listener in self._without_controllers(advertised)}
        return tuple(by_name[listener.name] for listener in self.listener_configs if listener.name in by_name)

    def _parse_listeners(self, entries: tuple[str, ...], property_name: str) -> tuple[ListenerConfig, ...]:
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        return parse_listeners(entries, protocols, property_name=property_name)

    def _without_controllers(self, listeners: tuple[ListenerConfig, ...]) -> tuple[ListenerConfig, ...]:
        controllers = {name.upper() for name in self.controller_listener_names}
        return tuple(listener for listener in listeners if listener.name not in controllers)

    def _topic_default(self, row: TopicConfig) -> object:
        for synonym in row.synonyms:
            value = self._values[synonym.name]
            if value is not None and row.name == "retention.ms":
                # Any negative time means for ever, in each unit (`KafkaConfig.logRetentionTimeMillis`).
                return max(value * synonym.factor, -1)
            if value is not None:
                return value if synonym.factor == 1 else value * synonym.factor
        return row.definition.default

    def _check(self) -> None:
        """Raise `InvalidConfig` for values that are impossible together."""
        check_topic_configs({}, self.topic_defaults)
        check_constraints(self)
        if not self.listener_configs:
            raise InvalidConfig("`listeners` has no listener for clients")
        check_distinct_ports(self._parse_listeners(self.listeners, "listeners"))
        names = {listener.name for listener in self.listener_configs}
        for listener in self.listener_configs:
            if listener.security_protocol != "PLAINTEXT":
                raise InvalidConfig(
                    f"listener `{listener.name}` is {listener.security_protocol}, only PLAINTEXT is available"
                )
        advertised = self._parse_listeners(self.advertised_listeners or (), "advertised.listeners")
        for listener in self._without_controllers(advertised):
            if listener.name not in names:
                raise InvalidConfig(f"`advertised.listeners` has `{listener.name}`, `listeners` has not")
        check_routable(self.advertised_listener_configs)


def _usable(layer: Mapping[str, str]) -> Mapping[str, str]:
    """Return the entries of a dynamic layer that the table knows and accepts."""
    usable = {}
    for name, text in layer.items():
        try:
            if name in BROKER_CONFIGS:
                BROKER_CONFIGS[name].parse(text)
                usable[name] = text
        except InvalidConfig:
            continue
    return MappingProxyType(usable)


def _unify_node_id(static: dict[str, str]) -> None:
    """Give `node.id` and its older name `broker.id` the same value; the newer name wins."""
    if static.get("broker.id", "").strip() == "-1":
        del static["broker.id"]  # What older releases generate an id for.
    given = [name for name in ("node.id", "broker.id") if name in static]
    if given:
        static["node.id"] = static["broker.id"] = static[given[0]]


def _unknown_name(name: str) -> UsageError:
    hint = nearest_hint(name, [*BROKER_CONFIGS, *INERT_CONFIGS])
    return UsageError(f"unknown broker config name: {name}", hint=hint)
