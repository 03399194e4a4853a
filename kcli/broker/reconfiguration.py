"""What a node checks before a dynamic configuration is stored that would be in effect on it (KIP-226).

The controller looks at single values. Whether they go together with everything else that the node was given,
only the node itself can tell (classes `DynamicBrokerConfig` and `DynamicThreadPool`): the one that is asked
looks at its own configuration, and at the default of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker_configs import BROKER_CONFIGS
from kcli.broker.config_constraints import check_constraints
from kcli.broker.config_definition import InvalidConfig, UpdateMode
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config import BrokerConfig

_POOLS = ("num.recovery.threads.per.data.dir", "num.replica.fetchers")
_WITHOUT_LIMIT = -1
_AS_LONG_AS_ALL = -2


def check_reconfiguration(config: BrokerConfig, values: Mapping[str, str], *, is_default: bool) -> None:
    """Check what a node would go by after a change of its own configuration, or of the default of all.

    `config` is what it goes by now, `values` the whole of what is to be stored. Raises `KafkaError`
    INVALID_REQUEST, as Kafka does. Names and values that cannot be stored at all are left to the controller.
    """
    dynamic = {
        name: text
        for name, text in values.items()
        if name in BROKER_CONFIGS and BROKER_CONFIGS[name].mode is not UpdateMode.READ_ONLY
    }
    if is_default:
        after = config.with_dynamic(broker=config.dynamic_broker, default=dynamic)
    else:
        after = config.with_dynamic(broker=dynamic, default=config.dynamic_default)
    try:
        check_constraints(after)
        _check_pools(config, after)
        _check_local_retention(after)
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _check_pools(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raise `InvalidConfig` for a number of tasks that is changed by more than half or double."""
    for name in _POOLS:
        old, new = before.value(name), after.value(name)
        if not old // 2 <= new <= old * 2:
            raise InvalidConfig(
                f"`{name}` ({new}) must be between half and double of what it is, which is {old}"
            )


def _check_local_retention(config: BrokerConfig) -> None:
    """Raise `InvalidConfig` if copies on the local disk were to be kept for longer than the records."""
    for unit in ("ms", "bytes"):
        total = config.topic_defaults[f"retention.{unit}"]
        local = config.topic_defaults[f"local.retention.{unit}"]
        if total == _WITHOUT_LIMIT or local == _AS_LONG_AS_ALL:
            continue
        if local == _WITHOUT_LIMIT or local > total:
            raise InvalidConfig(
                f"`log.local.retention.{unit}` ({local}) must not be above `log.retention.{unit}` ({total})"
            )
