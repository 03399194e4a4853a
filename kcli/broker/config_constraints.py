"""Constraints between broker configurations: what Kafka refuses together although each may be set.

The relations are those of Kafka 4.3 (classes `KafkaConfig` and `GroupCoordinatorConfig`) among the
configurations that act in kcli. They hold at the start, and for what a change would make of the effective
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.config_definition import InvalidConfig
from kcli.broker.topic_configs import TOPIC_CONFIGS

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class _Order:
    """One number must not be above another; if `is_strict`, it must be below."""

    lower: str
    higher: str
    is_strict: bool = False

    def check(self, config: BrokerConfig) -> None:
        """Raise `InvalidConfig`, which names both and their values."""
        low, high = config.value(self.lower), config.value(self.higher)
        if low > high or (self.is_strict and low == high):
            must = "must be below" if self.is_strict else "must not be above"
            raise InvalidConfig(f"`{self.lower}` ({low}) {must} `{self.higher}` ({high})")


_GROUP = "group.consumer"
_ORDERS = (
    # A fetch that waits for so long would look like a node that does not answer, or like one that lags.
    _Order("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    _Order("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    _Order(f"{_GROUP}.min.heartbeat.interval.ms", f"{_GROUP}.max.heartbeat.interval.ms"),
    _Order(f"{_GROUP}.min.heartbeat.interval.ms", f"{_GROUP}.heartbeat.interval.ms"),
    _Order(f"{_GROUP}.heartbeat.interval.ms", f"{_GROUP}.max.heartbeat.interval.ms"),
    _Order(f"{_GROUP}.min.session.timeout.ms", f"{_GROUP}.max.session.timeout.ms"),
    _Order(f"{_GROUP}.min.session.timeout.ms", f"{_GROUP}.session.timeout.ms"),
    _Order(f"{_GROUP}.session.timeout.ms", f"{_GROUP}.max.session.timeout.ms"),
    _Order(f"{_GROUP}.heartbeat.interval.ms", f"{_GROUP}.session.timeout.ms", is_strict=True),
    _Order(f"{_GROUP}.min.assignment.interval.ms", f"{_GROUP}.max.assignment.interval.ms"),
    _Order(f"{_GROUP}.min.assignment.interval.ms", f"{_GROUP}.assignment.interval.ms"),
    _Order(f"{_GROUP}.assignment.interval.ms", f"{_GROUP}.max.assignment.interval.ms"),
)


def check_constraints(config: BrokerConfig) -> None:
    """Raise `InvalidConfig` for effective values that are impossible together."""
    for order in _ORDERS:
        order.check(config)
    _check_retention(config)
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides.strip():
        raise InvalidConfig(
            "`max.connections.per.ip` (0) lets nobody connect without `max.connections.per.ip.overrides`"
        )


def doubts(config: BrokerConfig) -> tuple[str, ...]:
    """Return a line for each pair of values that is possible and hardly meant, as Kafka logs them."""
    interval, session = config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms
    if 2 * interval <= session:
        return ()
    return (
        f"`broker.heartbeat.interval.ms` ({interval}) is more than half of `broker.session.timeout.ms` "
        f"({session}): a node may be taken for dead that is not",
    )


def _check_retention(config: BrokerConfig) -> None:
    """Raise `InvalidConfig` if topics' records would be too old at once; a topic of its own may say so."""
    if config.topic_defaults["retention.ms"] != 0:
        return
    names = [synonym.name for synonym in TOPIC_CONFIGS["retention.ms"].synonyms]
    name = next(name for name in names if config.value(name) is not None)
    raise InvalidConfig(f"`{name}` (0) must be at least 1, or -1 to keep records for ever")
