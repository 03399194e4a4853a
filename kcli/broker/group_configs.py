"""GROUP_CONFIGS: what may be configured for a single group while it works (KIP-848, class `GroupConfig`).

The broker's own settings are the default of each and set its limits. A value that was stored under other
limits counts as the nearest one that they allow. What concerns share groups and groups of Kafka Streams is
checked, kept and shown, and has no effect: kcli has neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kcli.broker.config_definition import (
    INT_MAX,
    Check,
    ConfigDefinition,
    InvalidConfig,
    UpdateMode,
    at_least,
    between,
    boolean,
    integer,
    one_of,
    string,
)
from kcli.broker.coordinator.group_config import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupConfig,
    limits,
    of_group,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULTS = GroupConfig()
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)


def _acting(name: str, doc: str, check: Check) -> ConfigDefinition[int]:
    default = value_of(_DEFAULTS, name)
    return integer(name, default, doc, check=check, mode=UpdateMode.CLUSTER_WIDE)


def _inert(name: str, default: int, lowest: int, highest: int) -> ConfigDefinition[int]:
    return integer(name, default, "No effect.", check=between(lowest, highest))


def _check_reset(value: str) -> str | None:
    if value in {"earliest", "latest"} or _DURATION.fullmatch(value):
        return None
    return "must be earliest, latest or by_duration:PnDTnHnMn.nS"


_ACTING = (
    _acting(
        ASSIGNMENT_INTERVAL,
        "How long after an assignment the next one of this group is computed at the earliest.",
        at_least(0),
    ),
    _acting(
        HEARTBEAT_INTERVAL, "How often the members of this group are told to send a heartbeat.", at_least(1)
    ),
    _acting(
        SESSION_TIMEOUT, "How long a member of this group may be silent before it is removed.", at_least(1)
    ),
)

# The limits are those of a broker that sets none (`group.share.max.session.timeout.ms` and the like).
_WITHOUT_EFFECT = (
    _inert("share.assignment.interval.ms", 1000, 0, 15_000),
    string("share.auto.offset.reset", "latest", "No effect.", check=_check_reset),
    _inert("share.delivery.count.limit", 5, 2, 10),
    _inert("share.heartbeat.interval.ms", 5000, 5000, 15_000),
    string(
        "share.isolation.level",
        "read_uncommitted",
        "No effect.",
        check=one_of("read_committed", "read_uncommitted"),
    ),
    _inert("share.partition.max.record.locks", 2000, 100, 4000),
    _inert("share.record.lock.duration.ms", 30_000, 15_000, 60_000),
    boolean("share.renew.acknowledge.enable", True, "No effect."),
    _inert("share.session.timeout.ms", 45_000, 45_000, 60_000),
    _inert("streams.assignment.interval.ms", 1000, 0, 15_000),
    _inert("streams.heartbeat.interval.ms", 5000, 5000, 15_000),
    _inert("streams.initial.rebalance.delay.ms", 3000, 0, INT_MAX),
    _inert("streams.num.standby.replicas", 0, 0, 2),
    _inert("streams.session.timeout.ms", 45_000, 45_000, 60_000),
)

_OF_GROUPS_ALONE = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""Those that a broker has no default for."""

GROUP_CONFIGS: Mapping[str, ConfigDefinition[Any]] = {row.name: row for row in (*_ACTING, *_WITHOUT_EFFECT)}


def acts(name: str) -> bool:
    """True if the configuration of a group has an effect."""
    return GROUP_CONFIGS[name] in _ACTING


def broker_synonym(name: str) -> str:
    """Return the name under which the default of a group's configuration is found."""
    return name if name in _OF_GROUPS_ALONE else f"group.{name}"


def check_group_configs(values: Mapping[str, str], broker: GroupConfig) -> None:
    """Raise `InvalidConfig` unless a group may have these values under the broker's limits."""
    for name, text in values.items():
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"unknown group config name: {name}")
        value = GROUP_CONFIGS[name].parse(text)
        if not acts(name):
            continue
        lowest, highest = limits(broker, name)
        if not lowest <= value <= highest:
            raise InvalidConfig(
                f"invalid value `{text}` for `{name}`: must be between {lowest} and {highest}"
            )
    config = of_group(broker, values)
    if config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        raise InvalidConfig(f"`{SESSION_TIMEOUT}` must be above `{HEARTBEAT_INTERVAL}`")
