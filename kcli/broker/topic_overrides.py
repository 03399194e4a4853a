"""What a topic sets for itself, as text: parsing it and checking it against the table of configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config_definition import InvalidConfig
from kcli.broker.topic_configs import TOPIC_CONFIGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.topic_config import TopicConfig


def topic_config(name: str) -> TopicConfig:
    """Return the row of a name; raise `InvalidConfig` if there is none."""
    try:
        return TOPIC_CONFIGS[name]
    except KeyError:
        raise InvalidConfig(f"unknown topic config name: {name}") from None


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed values of a topic's own configurations; raise `InvalidConfig` at the first bad one."""
    return {name: topic_config(name).definition.parse(text) for name, text in overrides.items()}


def check_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, Any]) -> None:
    """Raise `InvalidConfig` unless these overrides are valid together with the broker's defaults.

    `defaults` gives the typed values of topics that override nothing, by topic configuration name.
    """
    values = {**defaults, **parse_topic_configs(overrides)}
    shortest, longest = (
        values.get(name, TOPIC_CONFIGS[name].definition.default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise InvalidConfig(
            f"`min.compaction.lag.ms` ({shortest}) must not be above `max.compaction.lag.ms` ({longest})"
        )
