"""The configuration of a client, a producer and a consumer, under Kafka's property names.

The field `request_timeout_ms` is the property `request.timeout.ms`, with the type and default shown; defaults
are those of the Java clients 4.x unless a comment says otherwise. Properties come from `-X name=value`
options and from Java properties files. Each class takes its own names from one mapping and ignores the
others; `property_warnings` reports names that belong to none of them.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, cast, dataclass_transform

from kcli.errors import UsageError, nearest_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.strategies import Strategy
    from kcli.security.client_security import ClientSecurity


MAX_INT32 = 2**31 - 1
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

Flag = TypeVar("Flag", bool, bool | None)


class Setting:
    """A property: its kind ("int", "bool", "text"), its default, and the values that it may have."""

    __slots__ = ("choices", "default", "kind", "maximum", "minimum")

    def __init__(
        self,
        kind: str,
        default: int | bool | str | None,
        *,
        minimum: int = 0,
        maximum: int = MAX_INT32,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.default = default
        self.minimum = minimum
        self.maximum = maximum
        self.choices = choices


def _number(*, default: int, minimum: int = 0, maximum: int = MAX_INT32) -> int:
    return cast("int", Setting("int", default, minimum=minimum, maximum=maximum))


def _flag(*, default: Flag) -> Flag:
    return cast("Flag", Setting("bool", default))


def _security(*, default: ClientSecurity | None) -> ClientSecurity | None:
    """Return the field of what is made from several properties."""
    return cast("ClientSecurity | None", Setting("object", cast("None", default)))


def _text(*choices: str, default: str) -> str:
    return cast("str", Setting("text", default, choices=choices))


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(_number, _flag, _security, _text)
)
class Settings:
    """Values by name, set once: the class attributes of its subclasses that are a `Setting`.

    A dataclass would be compiled at every start of a command, for three classes of some sixty fields.
    """

    settings: ClassVar[Mapping[str, Setting]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Setting)}
        cls.settings = {**cls.settings, **own}

    def __init__(self, **values: object) -> None:
        unknown = values.keys() - self.settings.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        defaults = {name: setting.default for name, setting in self.settings.items()}
        self.__dict__.update(defaults | values)
        self.check()

    def check(self) -> None:
        """Raise `UsageError` for values that exclude each other."""

    def changed(self, **values: object) -> Self:
        """Return a copy with other values."""
        return type(self)(**{**vars(self), **values})

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Take this class's properties out of `properties`; raise `UsageError` for a bad value."""
        return cls(**cls._values(properties))

    @classmethod
    def _values(cls, properties: Mapping[str, str]) -> dict[str, object]:
        names = _names(cls)
        return {
            names[name]: _parse(name, value.strip(), cls.settings[names[name]])
            for name, value in properties.items()
            if name in names
        }

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set `{name}`: settings do not change")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class RequestConfig(Settings):
    """The settings that a client and a producer share."""

    request_timeout_ms: int = _number(default=30_000, minimum=1)
    retry_backoff_ms: int = _number(default=100)
    retry_backoff_max_ms: int = _number(default=1_000)
    max_in_flight_requests_per_connection: int = _number(default=5, minimum=1)
    metadata_max_idle_ms: int = _number(default=300_000, minimum=5_000)


class ClientConfig(RequestConfig):
    """The settings of every client: identity, connections, metadata."""

    client_id: str = _text(default="kcli")
    security_protocol: str = _text(default="PLAINTEXT")
    default_api_timeout_ms: int = _number(default=60_000, minimum=1)
    reconnect_backoff_ms: int = _number(default=50)
    reconnect_backoff_max_ms: int = _number(default=1_000)
    socket_connection_setup_timeout_ms: int = _number(default=10_000, minimum=1)
    socket_connection_setup_timeout_max_ms: int = _number(default=30_000, minimum=1)
    connections_max_idle_ms: int = _number(default=540_000, minimum=-1)
    metadata_max_age_ms: int = _number(default=300_000)
    metadata_recovery_strategy: str = _text("rebootstrap", "none", default="rebootstrap")
    # The operating system decides, unlike Java's 128 and 64 KiB: a fixed size switches its tuning off.
    send_buffer_bytes: int = _number(default=-1, minimum=-1)
    receive_buffer_bytes: int = _number(default=-1, minimum=-1)

    security: ClientSecurity | None = _security(default=None)
    """TLS and login, None for PLAINTEXT."""

    def check(self) -> None:
        protocol = self.security_protocol.upper()
        if protocol not in PROTOCOLS:
            raise UsageError(
                f"invalid value for `security.protocol`: {self.security_protocol}",
                hint=f"use {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}",
            )
        if (self.security.protocol if self.security else "PLAINTEXT") != protocol:
            raise TypeError(f"{protocol} needs the properties of its security")

    @classmethod
    def _values(cls, properties: Mapping[str, str]) -> dict[str, object]:
        values = super()._values(properties)
        protocol = str(values.get("security_protocol", "PLAINTEXT")).upper()
        if protocol in PROTOCOLS[1:]:
            # Imported here: most clients are plain.
            from kcli.security.client_security import ClientSecurity

            values["security"] = ClientSecurity(protocol, properties)
        return values


class ProducerConfig(RequestConfig):
    """How records are batched, sent and acknowledged.

    `enable_idempotence` None means true unless `acks` or `retries` exclude it (KIP-679). A `transactional_id`
    needs it.
    """

    acks: str = _text("all", "-1", "0", "1", default="all")
    batch_size: int = _number(default=16_384)
    linger_ms: int = _number(default=5)
    buffer_memory: int = _number(default=33_554_432, minimum=0, maximum=2**63 - 1)
    max_block_ms: int = _number(default=60_000)
    max_request_size: int = _number(default=1_048_576)
    delivery_timeout_ms: int = _number(default=120_000)
    retries: int = _number(default=MAX_INT32)
    enable_idempotence: bool | None = _flag(default=None)
    compression_type: str = _text("none", "gzip", "snappy", "lz4", "zstd", default="none")
    compression_gzip_level: int = _number(default=-1, minimum=-1, maximum=9)
    compression_lz4_level: int = _number(default=9, minimum=1, maximum=17)
    compression_zstd_level: int = _number(default=3, minimum=-131_072, maximum=22)
    partitioner: str = _text(
        "murmur2", "consistent_random", "fnv1a", "sticky", "roundrobin", default="murmur2"
    )
    partitioner_adaptive_partitioning_enable: bool = _flag(default=True)
    partitioner_ignore_keys: bool = _flag(default=False)
    transactional_id: str = _text(default="")
    transaction_timeout_ms: int = _number(default=60_000, minimum=1)

    def check(self) -> None:
        if self.delivery_timeout_ms < min(self.linger_ms + self.request_timeout_ms, MAX_INT32):
            raise UsageError(
                "`delivery.timeout.ms` must be at least `linger.ms` plus `request.timeout.ms`: "
                f"{self.delivery_timeout_ms} < {self.linger_ms} + {self.request_timeout_ms}"
            )
        if self.enable_idempotence and self.required_acks != -1:
            raise UsageError(f"an idempotent producer needs `acks` all: {self.acks}")
        if self.enable_idempotence and self.retries == 0:
            raise UsageError("an idempotent producer needs `retries` above 0")
        if self.is_idempotent and self.max_in_flight_requests_per_connection > 5:
            raise UsageError(
                "an idempotent producer may have at most 5 `max.in.flight.requests.per.connection`: "
                f"{self.max_in_flight_requests_per_connection}",
                hint="lower it, or set `enable.idempotence` to false",
            )
        if self.transactional_id and not self.is_idempotent:
            raise UsageError(
                "a `transactional.id` needs `acks` all, `retries` above 0 and `enable.idempotence` true"
            )

    @property
    def required_acks(self) -> int:
        """Return acks as on the wire: -1, 0 or 1."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def is_idempotent(self) -> bool:
        """Return whether batches carry a producer id and sequence numbers."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.required_acks == -1 and self.retries > 0

    @property
    def compression_level(self) -> int | None:
        """Return the level of the codec in use, None for the codec's default."""
        level = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }.get(self.compression_type)
        return None if level == -1 else level


class ConsumerConfig(Settings):
    """How records are fetched, and how the consumer takes part in the group `group_id`, if set.

    `auto_offset_reset` may also be `by_duration:<ISO 8601>` (KIP-1106).
    """

    group_id: str = _text(default="")
    group_instance_id: str = _text(default="")
    group_protocol: str = _text(default="classic")
    group_remote_assignor: str = _text(default="")
    session_timeout_ms: int = _number(default=45_000, minimum=1)
    heartbeat_interval_ms: int = _number(default=3_000, minimum=1)
    max_poll_interval_ms: int = _number(default=300_000, minimum=1)
    partition_assignment_strategy: str = _text(default="range,cooperative-sticky")
    enable_auto_commit: bool = _flag(default=True)
    auto_commit_interval_ms: int = _number(default=5_000)
    exclude_internal_topics: bool = _flag(default=True)
    auto_offset_reset: str = _text(default="latest")
    isolation_level: str = _text("read_uncommitted", "read_committed", default="read_uncommitted")
    fetch_min_bytes: int = _number(default=1)
    fetch_max_wait_ms: int = _number(default=500)
    fetch_max_bytes: int = _number(default=52_428_800)
    max_partition_fetch_bytes: int = _number(default=1_048_576)
    max_poll_records: int = _number(default=500, minimum=1)
    check_crcs: bool = _flag(default=True)
    client_rack: str = _text(default="")

    def check(self) -> None:
        if self.auto_offset_reset not in ("latest", "earliest", "none"):
            duration_ms(self.auto_offset_reset)
        if self.group_protocol.lower() not in ("classic", "consumer"):
            raise UsageError(
                f"invalid value for `group.protocol`: {self.group_protocol}", hint="use classic or consumer"
            )
        is_classic = bool(self.group_id) and not self.is_consumer_protocol
        if is_classic and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise UsageError(
                "`heartbeat.interval.ms` must be less than `session.timeout.ms`: "
                f"{self.heartbeat_interval_ms} >= {self.session_timeout_ms}"
            )
        _ = self.strategies  # raises `UsageError` for an unknown one

    @property
    def is_consumer_protocol(self) -> bool:
        """Return whether the group uses the protocol of KIP-848, in which the coordinator assigns."""
        return self.group_protocol.lower() == "consumer"

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Return the assignors to offer, the preferred one first."""
        # Imported here: most commands have no consumer.
        from kcli.assignors.strategies import find_strategies

        return find_strategies(self.partition_assignment_strategy)

    @property
    def is_cooperative(self) -> bool:
        """Return whether partitions are kept while joining: only if every assignor supports it (KIP-429)."""
        return all(strategy.is_cooperative for strategy in self.strategies)

    @property
    def commits_by_itself(self) -> bool:
        return bool(self.group_id) and self.enable_auto_commit

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Take this class's properties out of `properties`; raise `UsageError` for a bad value.

        Also for a property that the group protocol does not have.
        """
        config = super().from_properties(properties)
        for name, hint in (_NOT_CONSUMER if config.is_consumer_protocol else _NOT_CLASSIC).items():
            if name in properties:
                raise UsageError(
                    f"`{name}` cannot be set with `group.protocol` {config.group_protocol}", hint=hint
                )
        return config


_NOT_CLASSIC = {"group.remote.assignor": "`partition.assignment.strategy` names the assignors to offer"}
_NOT_CONSUMER = {
    "heartbeat.interval.ms": "the broker decides it: `group.consumer.heartbeat.interval.ms`",
    "session.timeout.ms": "the broker decides it: `group.consumer.session.timeout.ms`",
    "partition.assignment.strategy": "`group.remote.assignor` names an assignor of the broker",
}
"""Properties of the other protocol, with the hint for each."""

_DURATION = (
    r"by_duration:P(?:(?P<days>\d{1,15})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,15})H)?(?:(?P<minutes>\d{1,15})M)?"
    r"(?:(?P<seconds>\d{1,15}(?:\.\d{1,15})?)S)?)?"
)


def duration_ms(strategy: str) -> int:
    """Return the milliseconds of a `by_duration:P1DT2H3M4.5S` offset reset strategy."""
    match = re.fullmatch(_DURATION, strategy)
    if match is None or not any(match.groups()):
        raise UsageError(
            f"invalid value for `auto.offset.reset`: {strategy}",
            hint="use earliest, latest, none or by_duration:<ISO 8601 duration>",
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _names(cls: type[Settings]) -> dict[str, str]:
    """Return the name of the setting of each property."""
    return {name.replace("_", "."): name for name, each in cls.settings.items() if each.kind != "object"}


def _parse(name: str, value: str, setting: Setting) -> int | bool | str:
    match setting.kind:
        case "bool":
            if value.lower() not in ("true", "false"):
                raise UsageError(f"invalid value for `{name}`: {value}", hint="use true or false")
            return value.lower() == "true"
        case "int":
            low, high = setting.minimum, setting.maximum
            if not re.fullmatch(r"[+-]?\d+", value) or not low <= int(value) <= high:
                raise UsageError(
                    f"invalid value for `{name}`: {value}", hint=f"use a whole number from {low} to {high}"
                )
            return int(value)
        case _:
            if setting.choices and value not in setting.choices:
                raise UsageError(
                    f"invalid value for `{name}`: {value}", hint=f"use {' or '.join(setting.choices)}"
                )
            return value


_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics", "bootstrap.controllers", "bootstrap.resolve.timeout.ms",
        "client.dns.lookup", "interceptor.classes",
        "metadata.recovery.rebootstrap.trigger.ms", "partitioner.availability.timeout.ms",
        "partitioner.class", "transaction.two.phase.commit.enable",
    }
)  # fmt: skip

# No warning: command options replace these names (addresses, serializers), they matter only in a Java
# process (metrics), or they follow from `security.protocol`.
_NEED_NO_WARNING = frozenset(
    {
        "auto.include.jmx.reporter", "bootstrap.servers", "config.providers", "enable.metrics.push",
        "key.deserializer",
        "key.serializer", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "security.providers", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
_LOOKED_AT_ELSEWHERE = ("ssl.", "sasl.", "config.providers.")


def property_warnings(properties: Mapping[str, str]) -> list[str]:
    """Return one line for each property that is unknown or has no effect, with the nearest known name."""
    acted_on = _names(ClientConfig).keys() | _names(ProducerConfig).keys() | _names(ConsumerConfig).keys()
    known = acted_on | _WITHOUT_EFFECT | _NEED_NO_WARNING
    warnings = []
    for name in properties:
        if name in _WITHOUT_EFFECT:
            warnings.append(f"`{name}` has no effect in kcli")
        elif name not in known and not name.startswith(_LOOKED_AT_ELSEWHERE):
            hint = nearest_hint(name, known)
            warnings.append(f"unknown property `{name}`{f', {hint}' if hint else ''}")
    if any(name.startswith(("ssl.", "sasl.")) for name in properties):
        from kcli.security.client_properties import security_warnings

        warnings.extend(security_warnings(properties))
    return warnings
