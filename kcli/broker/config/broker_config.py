"""BrokerConfig: a broker's effective configuration, layer over layer.

A value comes from the first of: the broker's own dynamic configuration, the cluster's dynamic default, the
static properties of the broker, the built-in default (KIP-226). An instance never changes; `with_dynamic`
returns another. Settings read as attributes named as the configurations with underscores.

The constraints between configurations are Kafka's (classes `KafkaConfig`, `GroupCoordinatorConfig`). They
hold at the start and after every dynamic change: the controller checks single values, the node that takes the
request checks what they become together (`DynamicBrokerConfig`, `DynamicThreadPool`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.config.broker_definitions import (
    BROKER_CONFIGS,
    SETTINGS,
    BrokerSettings,
    broker_config,
    find_broker_config,
)
from kcli.broker.config.config_definition import InvalidConfig, UpdateMode
from kcli.broker.config.inert_configs import inert_names, refusal, warning
from kcli.broker.config.listener_config import (
    ListenerConfig,
    check_distinct_ports,
    check_routable,
    parse_listeners,
    parse_protocol_map,
)
from kcli.broker.config.listener_properties import PREFIX, ListenerProperties, split_name, unknown_hint
from kcli.broker.config.topic_definitions import TOPIC_CONFIGS, check_topic_configs, parse_topic_configs
from kcli.errors import UsageError, nearest_hint
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kcli.broker.config.sasl_settings import SaslSettings
    from kcli.broker.config.topic_definitions import TopicConfig


INTER_BROKER = ("inter.broker.listener.name", "security.inter.broker.protocol")
ENABLED_MECHANISMS = BrokerSettings.sasl_enabled_mechanisms.name


@dataclass(frozen=True, slots=True)
class _Order:
    """One number must not be above another; if `is_strict`, it must be below."""

    lower: str
    higher: str
    is_strict: bool = False

    def check(self, config: BrokerConfig) -> None:
        """Raise `InvalidConfig` with both names and values unless the order holds."""
        low, high = config.value(self.lower), config.value(self.higher)
        if low > high or (self.is_strict and low == high):
            must = "must be below" if self.is_strict else "must not be above"
            raise InvalidConfig(f"`{self.lower}` ({low}) {must} `{self.higher}` ({high})")


def _group_orders(group: str) -> tuple[_Order, ...]:
    """Return the order of the intervals and timeouts of one kind of group."""
    return (
        *_range_orders(group, "heartbeat.interval.ms"),
        *_range_orders(group, "session.timeout.ms"),
        *_range_orders(group, "assignment.interval.ms"),
        _Order(f"{group}.heartbeat.interval.ms", f"{group}.session.timeout.ms", is_strict=True),
    )


def _range_orders(group: str, name: str) -> tuple[_Order, ...]:
    return (
        _Order(f"{group}.min.{name}", f"{group}.max.{name}"),
        _Order(f"{group}.min.{name}", f"{group}.{name}"),
        _Order(f"{group}.{name}", f"{group}.max.{name}"),
    )


_ORDERS = (
    # A longer wait would look like a node that does not respond, or like a lagging one.
    _Order("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    _Order("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    *_group_orders("group.consumer"),
)


_INERT_ORDERS = (
    *_group_orders("group.share"),
    *_range_orders("group.share", "record.lock.duration.ms"),
    *_range_orders("group.share", "delivery.count.limit"),
    *_range_orders("group.share", "partition.max.record.locks"),
    *_group_orders("group.streams"),
    _Order("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
"""Of configurations without effect, which are checked where one of them is set."""

_POOLS = ("log.cleaner.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers")
_INERT_POOLS = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
CLIENT_AUTH = "ssl.client.auth"
_MEBIBYTE = 1 << 20
_SHORTEST_BACKOFF_MS = 10
_UNLIMITED = -1
_SAME_AS_TOTAL = -2
_EMPTY: Mapping[str, str] = MappingProxyType({})
_LOG_CONFIG_FIELDS = frozenset(LogConfig.__dataclass_fields__)


class BrokerConfig(BrokerSettings):
    """An immutable set of effective values; `from_properties` makes one.

    `static`, `dynamic_default` and `dynamic_broker` are the layers as text, by configuration name;
    `warnings` has a line for each accepted property without effect.
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
            values.update(
                {
                    name: BROKER_CONFIGS[name].parse(text)
                    for name, text in layer.items()
                    if name in BROKER_CONFIGS
                }
            )
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

        Raises `UsageError` for an unknown name, an invalid value, and a property of access control that kcli
        does not act on. Any other property of Kafka without effect becomes a warning.
        """
        static: dict[str, str] = {}
        warnings = []
        for name, text in properties.items():
            if refused := refusal(name, text):
                raise UsageError(refused, hint="remove it")
            row = find_broker_config(name)
            if row is None:
                known = [*BROKER_CONFIGS, *inert_names()]
                hint = unknown_hint(name, known) if name.startswith(PREFIX) else nearest_hint(name, known)
                raise UsageError(f"unknown broker config name: {name}", hint=hint)
            static[name] = text
            if line := warning(row):
                warnings.append(line)
        _unify_node_id(static)
        try:
            for name, text in static.items():
                broker_config(name).parse(text)
            config = cls(static=MappingProxyType(static), warnings=tuple(warnings))
            config._check()
            if more := config._likely_mistakes():
                config = cls(static=config.static, warnings=(*warnings, *more))
        except InvalidConfig as error:
            raise UsageError(error.message, hint=error.hint) from error
        return config

    def with_dynamic(self, *, broker: Mapping[str, str], default: Mapping[str, str]) -> BrokerConfig:
        """Return this configuration with other dynamic layers.

        Unknown names and invalid values are left out: an old record must not stop a broker.
        """
        return BrokerConfig(
            static=self.static,
            dynamic_default=_usable(default),
            dynamic_broker=_usable(broker),
            warnings=self.warnings,
        )

    def value(self, name: str) -> Any:  # noqa: ANN401  # the row says which type
        """Return the effective value of a configuration, None if it has none."""
        return self._values[name] if name in BROKER_CONFIGS else self._inert_value(name)

    def _inert_value(self, name: str) -> Any:  # noqa: ANN401  # the row says which type
        row = broker_config(name)
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return row.parse(layer[name])
        return row.default

    @cached_property
    def topic_defaults(self) -> Mapping[str, Any]:
        """The typed configuration of a topic without overrides, by topic configuration name."""
        return MappingProxyType({name: self._topic_default(row) for name, row in TOPIC_CONFIGS.items()})

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """Return the configuration of a log: the topic's overrides over this broker's defaults.

        Unknown names and invalid values are left out.
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

    @property
    def log_cleaner_backoff_seconds(self) -> float:
        """How long to wait for a log to become due for compaction, at least a moment."""
        return max(self.log_cleaner_backoff_ms, _SHORTEST_BACKOFF_MS) / 1000

    @cached_property
    def log_directories(self) -> tuple[str, ...]:
        """The configured log directories; empty without `log.dirs` and `log.dir`."""
        return self.log_dirs or self.log_dir or ()

    @cached_property
    def listener_configs(self) -> tuple[ListenerConfig, ...]:
        """The listeners to open: all but those for controllers only."""
        return self._without_controllers(self._parse_listeners(self.listeners, "listeners"))

    @cached_property
    def advertised_listener_configs(self) -> tuple[ListenerConfig, ...]:
        """The listeners given to clients, in the order of `listeners`, without those not advertised."""
        if self.advertised_listeners is None:
            return self.listener_configs
        advertised = self._parse_listeners(self.advertised_listeners, "advertised.listeners")
        by_name = {listener.name: listener for listener in self._without_controllers(advertised)}
        return tuple(by_name[listener.name] for listener in self.listener_configs if listener.name in by_name)

    def listener_properties(self, listener_name: str) -> ListenerProperties:
        """Return the properties that hold for a listener.

        As in Kafka, a listener's own property wins whichever layer it is in.
        """
        given = {**self.static, **self.dynamic_default, **self.dynamic_broker}
        return ListenerProperties(given, listener_name)

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
                # Any negative time means forever, in each unit (`KafkaConfig.logRetentionTimeMillis`).
                return max(value * synonym.factor, -1)
            if value is not None:
                return value if synonym.factor == 1 else value * synonym.factor
        return row.definition.default

    def check_reconfiguration(self, values: Mapping[str, str], *, is_default: bool) -> BrokerConfig:
        """Return what this configuration becomes if `values` replace a whole dynamic layer of it.

        The layer is the node's own, or with `is_default` the default of all nodes. Raises `KafkaError`
        INVALID_REQUEST, as Kafka does. Names and values that cannot be stored at all are for the controller.
        """
        dynamic = {
            name: text
            for name, text in values.items()
            if (row := find_broker_config(name)) is not None and row.mode is not UpdateMode.READ_ONLY
        }
        if is_default:
            after = self.with_dynamic(broker=self.dynamic_broker, default=dynamic)
        else:
            after = self.with_dynamic(broker=dynamic, default=self.dynamic_default)
        try:
            after.check_change(self)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
        return after

    def check_change(self, before: BrokerConfig) -> None:
        """Raise `InvalidConfig` if a running node cannot change from `before` to this configuration."""
        self._check_constraints()
        self._check_pools(before)
        self._check_local_retention()
        self._check_logins()
        self._check_client_auth()
        for name in ("max.connections", "max.connection.creation.rate"):
            if name in {**self.dynamic_broker, **self.dynamic_default} and self.value(name) == 0:
                raise InvalidConfig(f"`{name}` (0) would lock out every client")

    def _check_constraints(self) -> None:
        """Raise `InvalidConfig` for effective values that are impossible together."""
        for order in _ORDERS:
            order.check(self)
        self._check_inert()
        size, threads = self.log_cleaner_dedupe_buffer_size, self.log_cleaner_threads
        if threads < 1 or size // threads <= _MEBIBYTE:
            raise InvalidConfig(
                f"`log.cleaner.dedupe.buffer.size` ({size}) must be above 1 MiB for each of "
                f"`log.cleaner.threads` ({threads})"
            )
        if self.topic_defaults["retention.ms"] == 0:  # A topic of its own may have it.
            names = [synonym.name for synonym in TOPIC_CONFIGS["retention.ms"].synonyms]
            name = next(name for name in names if self.value(name) is not None)
            raise InvalidConfig(f"`{name}` (0) must be at least 1, or -1 to keep records forever")
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides.strip():
            raise InvalidConfig(
                "`max.connections.per.ip` (0) admits no client without `max.connections.per.ip.overrides`"
            )

    def _check_inert(self) -> None:
        """Raise `InvalidConfig` for values without effect that Kafka would not take together."""
        names = {*self.static, *self.dynamic_default, *self.dynamic_broker} - BROKER_CONFIGS.keys()
        for order in _INERT_ORDERS:
            if order.lower in names or order.higher in names:
                order.check(self)
        if "cordoned.log.dirs" in names:
            directories = self.log_dirs or self.log_dir or ()
            missing = [each for each in self.value("cordoned.log.dirs") if each not in (*directories, "*")]
            if missing:
                raise InvalidConfig(f"`cordoned.log.dirs` has `{missing[0]}`, `log.dirs` has not")

    def _check_pools(self, before: BrokerConfig) -> None:
        """Raise `InvalidConfig` if a number of tasks is less than half or more than double what it was."""
        named = {*self.dynamic_broker, *self.dynamic_default, *before.dynamic_broker, *before.dynamic_default}
        for name in (*_POOLS, *sorted(_INERT_POOLS & named)):
            old, new = before.value(name), self.value(name)
            if not old // 2 <= new <= old * 2:
                raise InvalidConfig(
                    f"`{name}` ({new}) must be between half and double of its current value {old}"
                )

    def _check_local_retention(self) -> None:
        """Raise `InvalidConfig` if the local disk would keep records longer than the topic does."""
        for unit in ("ms", "bytes"):
            total = self.topic_defaults[f"retention.{unit}"]
            local = self.topic_defaults[f"local.retention.{unit}"]
            if total == _UNLIMITED or local == _SAME_AS_TOTAL:
                continue
            if local == _UNLIMITED or local > total:
                raise InvalidConfig(
                    f"`log.local.retention.{unit}` ({local}) must not be above "
                    f"`log.retention.{unit}` ({total})"
                )

    def _likely_mistakes(self) -> tuple[str, ...]:
        """Return a line for values that are possible together but probably a mistake, as Kafka logs them."""
        lines = [*self._listener_warnings()]
        interval, session = self.broker_heartbeat_interval_ms, self.broker_session_timeout_ms
        if 2 * interval > session:
            lines.append(
                f"`broker.heartbeat.interval.ms` ({interval}) is more than half of "
                f"`broker.session.timeout.ms` ({session}): the controller may fence a node that is alive"
            )
        return tuple(lines)

    def _listener_warnings(self) -> Iterator[str]:
        names = {listener.name.lower() for listener in self._parse_listeners(self.listeners, "listeners")}
        for name in self.static:
            listener = split_name(name)[0]
            row = find_broker_config(name)
            if listener and listener not in names and row is not None and row.has_effect:
                yield f"`{name}` has no effect: `listeners` has no `{listener.upper()}`"
        if ENABLED_MECHANISMS in self.static and not any(each.is_sasl for each in self.listener_configs):
            yield f"`{ENABLED_MECHANISMS}` has no effect: no listener has SASL, so nobody has to log in"
        for each in self.listener_configs:
            if each.is_sasl:
                yield from self._login_warnings(each)
            if each.is_sasl and each.is_tls and self.ssl_client_auth != "none":
                own = f"{PREFIX}{each.name.lower()}.{CLIENT_AUTH}"
                if own not in self.static:
                    yield f"`{CLIENT_AUTH}` has no effect on `{each.name}`, where clients log in: `{own}` has"

    def _login_warnings(self, listener: ListenerConfig) -> Iterator[str]:
        settings = self.sasl_settings(listener.name)
        yield from settings.warnings
        takes_passwords = any(mechanism.name == "PLAIN" for mechanism in settings.mechanisms)
        if takes_passwords and not listener.is_tls and not listener.is_local:
            yield f"passwords come to listener `{listener.name}` in the clear: it has PLAIN without TLS"

    def _check_authorizer(self) -> None:
        """Raise `InvalidConfig` for settings of an authorizer without one: nobody shall believe in them."""
        if self.authorizer_class_name:
            return
        closes = {"super.users": bool(self.super_users.strip())}
        closes["allow.everyone.if.no.acl.found"] = (
            "allow.everyone.if.no.acl.found" in self.static and not self.allow_everyone_if_no_acl_found
        )
        for name, is_closed in closes.items():
            if is_closed:
                raise InvalidConfig(
                    f"`{name}` is set without `authorizer.class.name`: every client would get in",
                    hint="`authorizer.class.name=standard` closes the door",
                )

    def _check_client_auth(self) -> None:
        """Raise `InvalidConfig` if certificates are demanded of clients, and no listener asks for them."""
        for name, text in {**self.static, **self.dynamic_broker}.items():
            listener, _, rest = split_name(name)
            is_off = (rest or name) != CLIENT_AUTH or text.strip() == "none"
            if not is_off and not self._asks_for_certificates(listener):
                raise InvalidConfig(
                    f"`{name}` is {text.strip()}, and no listener acts on it: every client would get in",
                    hint="`listener.security.protocol.map` says which listeners are SSL",
                )

    def _asks_for_certificates(self, listener: str) -> bool:
        """Return whether a listener acts on its own `ssl.client.auth`; without a name, any on that of all.

        Where clients log in by SASL, only a listener's own counts, as in Kafka.
        """
        return any(
            each.is_tls and (each.name.lower() == listener if listener else not each.is_sasl)
            for each in self.listener_configs
        )

    def sasl_settings(self, listener_name: str) -> SaslSettings:
        """Return how the clients of a listener log in. Raises `InvalidConfig`."""
        from kcli.broker.config.sasl_settings import SaslSettings  # Most brokers have no logins.

        return SaslSettings.of(self.listener_properties(listener_name))

    def _check_logins(self) -> None:
        """Raise `InvalidConfig` for listeners at which nobody could log in, or waits too long to fail."""
        delay, limit = self.connection_failed_authentication_delay_ms, self.connections_max_idle_ms
        if 0 <= limit <= delay:
            raise InvalidConfig(
                f"`connection.failed.authentication.delay.ms` ({delay}) must be below "
                f"`connections.max.idle.ms` ({limit})"
            )
        for listener in self.listener_configs:
            if listener.is_sasl:
                self.sasl_settings(listener.name)

    def _check(self) -> None:
        """Raise `InvalidConfig` for values that are impossible together."""
        check_topic_configs({}, self.topic_defaults)
        self._check_constraints()
        self._check_authorizer()
        self._check_client_auth()
        if not self.listener_configs:
            raise InvalidConfig("`listeners` has no listener for clients")
        check_distinct_ports(self._parse_listeners(self.listeners, "listeners"))
        names = {listener.name for listener in self.listener_configs}
        self._check_logins()
        advertised = self._parse_listeners(self.advertised_listeners or (), "advertised.listeners")
        for listener in self._without_controllers(advertised):
            if listener.name not in names:
                raise InvalidConfig(f"`advertised.listeners` has `{listener.name}`, `listeners` has not")
        check_routable(self.advertised_listener_configs)
        self._check_inter_broker()

    def _check_inter_broker(self) -> None:
        """Raise `InvalidConfig` for a listener between brokers that Kafka would not start with.

        Nodes of a process talk without a listener.
        """
        given = {name: self.static[name].strip() for name in INTER_BROKER if name in self.static}
        if len(given) > 1:
            raise InvalidConfig("only one of `" + "` and `".join(given) + "` may be set")
        for name, value in given.items():
            advertised = [listener.name for listener in self.advertised_listener_configs]
            if value.upper() not in advertised:
                raise InvalidConfig(
                    f"`{name}` is {value}, which `advertised.listeners` has not",
                    hint=nearest_hint(value, advertised),
                )


def _usable(layer: Mapping[str, str]) -> Mapping[str, str]:
    """Return the known and valid entries of a dynamic layer."""
    usable = {}
    for name, text in layer.items():
        try:
            row = find_broker_config(name)
            if row is not None:
                row.parse(text)
                usable[name] = text
        except InvalidConfig:
            continue
    return MappingProxyType(usable)


def _unify_node_id(static: dict[str, str]) -> None:
    """Give `node.id` and its older name `broker.id` the same value; `node.id` wins."""
    if static.get("broker.id", "").strip() == "-1":
        del static["broker.id"]  # Older releases generate an id then.
    given = [name for name in ("node.id", "broker.id") if name in static]
    if given:
        static["node.id"] = static["broker.id"] = static[given[0]]
