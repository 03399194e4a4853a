"""The configuration of a client, a producer and a consumer, under Kafka's property names.

The field `request_timeout_ms` is the property `request.timeout.ms`, with the type and default shown; defaults
are those of the Java clients 4.x unless a comment says otherwise. Properties come from `-X name=value`
options and from Java properties files. Each class takes its own names from one mapping and ignores the
others; `property_warnings` reports names that belong to none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kcli.errors import UsageError, nearest_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.strategies import Strategy


MAX_INT32 = 2**31 - 1

Flag = TypeVar("Flag", bool, bool | None)
Config = TypeVar("Config", bound="RequestConfig | ConsumerConfig")


def _number(default: int, minimum: int = 0, maximum: int = MAX_INT32) -> int:
    return field(default=default, metadata={"kind": "int", "minimum": minimum, "maximum": maximum})


def _flag(default: Flag) -> Flag:
    return field(default=default, metadata={"kind": "bool"})


def _text(default: str, *choices: str) -> str:
    return field(default=default, metadata={"kind": "text", "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestConfig:
    """The settings that a client and a producer share."""

    request_timeout_ms: int = _number(30_000, 1)
    retry_backoff_ms: int = _number(100)
    retry_backoff_max_ms: int = _number(1_000)
    max_in_flight_requests_per_connection: int = _number(5, 1)
    metadata_max_idle_ms: int = _number(300_000, 5_000)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Take this class's properties out of `properties`; raise `UsageError` for a bad value."""
        return _from_properties(cls, properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(RequestConfig):
    """The settings of every client: identity, connections, metadata."""

    client_id: str = _text("kcli")
    security_protocol: str = _text("PLAINTEXT")
    default_api_timeout_ms: int = _number(60_000, 1)
    reconnect_backoff_ms: int = _number(50)
    reconnect_backoff_max_ms: int = _number(1_000)
    socket_connection_setup_timeout_ms: int = _number(10_000, 1)
    socket_connection_setup_timeout_max_ms: int = _number(30_000, 1)
    connections_max_idle_ms: int = _number(540_000, -1)
    metadata_max_age_ms: int = _number(300_000)
    metadata_recovery_strategy: str = _text("rebootstrap", "rebootstrap", "none")
    # The operating system decides, unlike Java's 128 and 64 KiB: a fixed size switches its tuning off.
    send_buffer_bytes: int = _number(-1, -1)
    receive_buffer_bytes: int = _number(-1, -1)

    def __post_init__(self) -> None:
        if self.security_protocol.upper() != "PLAINTEXT":
            raise UsageError(
                f"cannot speak `security.protocol` {self.security_protocol}",
                hint="only PLAINTEXT is supported; connect to a PLAINTEXT listener of the broker",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(RequestConfig):
    """How records are batched, sent and acknowledged.

    `enable_idempotence` None means true unless `acks` or `retries` exclude it (KIP-679).
    """

    acks: str = _text("all", "all", "-1", "0", "1")
    batch_size: int = _number(16_384)
    linger_ms: int = _number(5)
    buffer_memory: int = _number(33_554_432, 0, 2**63 - 1)
    max_block_ms: int = _number(60_000)
    max_request_size: int = _number(1_048_576)
    delivery_timeout_ms: int = _number(120_000)
    retries: int = _number(MAX_INT32)
    enable_idempotence: bool | None = _flag(None)
    compression_type: str = _text("none", "none", "gzip", "snappy", "lz4", "zstd")
    compression_gzip_level: int = _number(-1, -1, 9)
    compression_lz4_level: int = _number(9, 1, 17)
    compression_zstd_level: int = _number(3, -131_072, 22)
    partitioner: str = _text("murmur2", "murmur2", "consistent_random", "fnv1a", "sticky", "roundrobin")
    partitioner_adaptive_partitioning_enable: bool = _flag(True)
    partitioner_ignore_keys: bool = _flag(False)

    def __post_init__(self) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """How records are fetched, and how the consumer takes part in the group `group_id`, if set.

    `auto_offset_reset` may also be `by_duration:<ISO 8601>` (KIP-1106).
    """

    group_id: str = _text("")
    group_instance_id: str = _text("")
    group_protocol: str = _text("classic")
    group_remote_assignor: str = _text("")
    session_timeout_ms: int = _number(45_000, 1)
    heartbeat_interval_ms: int = _number(3_000, 1)
    max_poll_interval_ms: int = _number(300_000, 1)
    partition_assignment_strategy: str = _text("range,cooperative-sticky")
    enable_auto_commit: bool = _flag(True)
    auto_commit_interval_ms: int = _number(5_000)
    exclude_internal_topics: bool = _flag(True)
    auto_offset_reset: str = _text("latest")
    isolation_level: str = _text("read_uncommitted", "read_uncommitted", "read_committed")
    fetch_min_bytes: int = _number(1)
    fetch_max_wait_ms: int = _number(500)
    fetch_max_bytes: int = _number(52_428_800)
    max_partition_fetch_bytes: int = _number(1_048_576)
    max_poll_records: int = _number(500, 1)
    check_crcs: bool = _flag(True)
    client_rack: str = _text("")

    def __post_init__(self) -> None:
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
    def from_properties(cls, properties: Mapping[str, str]) -> ConsumerConfig:
        """Take this class's properties out of `properties`; raise `UsageError` for a bad value.

        Also for a property that the group protocol does not have.
        """
        config: ConsumerConfig = _from_properties(cls, properties)
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

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d{1,15})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,15})H)?(?:(?P<minutes>\d{1,15})M)?"
    r"(?:(?P<seconds>\d{1,15}(?:\.\d{1,15})?)S)?)?"
)


def duration_ms(strategy: str) -> int:
    """Return the milliseconds of a `by_duration:P1DT2H3M4.5S` offset reset strategy."""
    match = _DURATION.fullmatch(strategy)
    if match is None or not any(match.groups()):
        raise UsageError(
            f"invalid value for `auto.offset.reset`: {strategy}",
            hint="use earliest, latest, none or by_duration:<ISO 8601 duration>",
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _names(cls: type[Any]) -> dict[str, Any]:
    return {item.name.replace("_", "."): item for item in fields(cls)}


def _from_properties(cls: type[Config], properties: Mapping[str, str]) -> Config:
    names = _names(cls)
    values: dict[str, Any] = {
        names[name].name: _parse(name, value.strip(), names[name].metadata)
        for name, value in properties.items()
        if name in names
    }
    return cls(**values)


def _parse(name: str, value: str, metadata: Mapping[str, Any]) -> int | bool | str:
    match metadata["kind"]:
        case "bool":
            if value.lower() not in ("true", "false"):
                raise UsageError(f"invalid value for `{name}`: {value}", hint="use true or false")
            return value.lower() == "true"
        case "int":
            low, high = metadata["minimum"], metadata["maximum"]
            if not re.fullmatch(r"[+-]?\d+", value) or not low <= int(value) <= high:
                raise UsageError(
                    f"invalid value for `{name}`: {value}", hint=f"use a whole number from {low} to {high}"
                )
            return int(value)
        case _:
            choices = metadata["choices"]
            if choices and value not in choices:
                raise UsageError(f"invalid value for `{name}`: {value}", hint=f"use {' or '.join(choices)}")
            return value


_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics", "bootstrap.controllers", "bootstrap.resolve.timeout.ms",
        "client.dns.lookup", "config.providers", "interceptor.classes",
        "metadata.recovery.rebootstrap.trigger.ms", "partitioner.availability.timeout.ms",
        "partitioner.class", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
        "transactional.id",
    }
)  # fmt: skip

# No warning: command options replace these names (addresses, serializers), they matter only in a Java
# process (metrics), or they follow from `security.protocol`.
_NEED_NO_WARNING = frozenset(
    {
        "auto.include.jmx.reporter", "bootstrap.servers", "enable.metrics.push", "key.deserializer",
        "key.serializer", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "security.providers", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
_NEED_NO_WARNING_PREFIXES = ("ssl.", "sasl.")


def property_warnings(properties: Mapping[str, str]) -> list[str]:
    """Return one line for each property that is unknown or has no effect, with the nearest known name."""
    acted_on = _names(ClientConfig).keys() | _names(ProducerConfig).keys() | _names(ConsumerConfig).keys()
    known = acted_on | _WITHOUT_EFFECT | _NEED_NO_WARNING
    warnings = []
    for name in properties:
        if name in _WITHOUT_EFFECT or name.startswith("config.providers."):
            warnings.append(f"`{name}` has no effect in kcli")
        elif name not in known and not name.startswith(_NEED_NO_WARNING_PREFIXES):
            hint = nearest_hint(name, known)
            warnings.append(f"unknown property `{name}`{f', {hint}' if hint else ''}")
    return warnings
