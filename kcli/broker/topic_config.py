"""TopicConfig: one topic configuration, and the broker configurations that give a topic its default.

The synonyms come most specific first; those that only differ in unit (`log.retention.hours`) carry a factor
(Kafka class `ServerTopicConfigSynonyms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kcli.broker.config_definition import Check, ConfigDefinition, UpdateMode
from kcli.protocol.configs import ConfigType


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker configuration that gives a topic configuration its default.

    `factor` converts its unit to the topic's. `definition` is the broker's own row.
    """

    definition: ConfigDefinition[Any]
    factor: int = 1

    @property
    def name(self) -> str:
        """The name of the broker configuration."""
        return self.definition.name


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic configuration and its broker synonyms, in order of precedence."""

    definition: ConfigDefinition[Any]
    synonyms: tuple[Synonym, ...] = ()

    @property
    def name(self) -> str:
        """The name of the topic configuration."""
        return self.definition.name


def topic_row(
    name: str,
    type: ConfigType,
    default: object,
    doc: str,
    *,
    broker: str | None = None,
    check: Check | None = None,
    others: tuple[Synonym, ...] = (),
    has_broker_default: bool = True,
    negative_is_for_ever: bool = False,
) -> TopicConfig:
    """Build a row. `broker` is the name of the main synonym, which has the same type and check.

    When `others` give the value in another unit, the main synonym has no default of its own. With
    `negative_is_for_ever` it may be any number, and each below zero stands for -1.
    """
    definition = ConfigDefinition(name, type, default, doc, check=check)
    if broker is None:
        return TopicConfig(definition, others)
    main: ConfigDefinition[Any] = ConfigDefinition(
        broker,
        type,
        default if has_broker_default and not others else None,
        f"The default of the topic configuration `{name}`: {doc[0].lower()}{doc[1:]}",
        check=None if negative_is_for_ever else check,
        mode=UpdateMode.CLUSTER_WIDE,
    )
    return TopicConfig(definition, (Synonym(main), *others))


def other_unit(name: str, default: int | None, factor: int, doc: str, check: Check | None = None) -> Synonym:
    """Build the synonym that gives the same in another unit."""
    return Synonym(ConfigDefinition(name, ConfigType.INT, default, doc, check=check), factor)
