"""Which client properties to warn of: names that no Kafka client has, and those that change nothing here.

Some names that Java clients know need no warning: their job is done by options of the commands (addresses,
serializers), they only matter to a Java process (metrics), or they follow from `security.protocol`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.errors import nearest_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics", "bootstrap.controllers", "bootstrap.resolve.timeout.ms",
        "client.dns.lookup", "config.providers", "interceptor.classes",
        "metadata.recovery.rebootstrap.trigger.ms", "partitioner.availability.timeout.ms",
        "partitioner.class", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
        "transactional.id",
    }
)  # fmt: skip

_NEED_NO_WARNING = frozenset(
    {
        "auto.include.jmx.reporter", "bootstrap.servers", "enable.metrics.push", "key.deserializer",
        "key.serializer", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "security.providers", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
_NEED_NO_WARNING_PREFIXES = ("ssl.", "sasl.")


def property_warnings(properties: Mapping[str, str]) -> list[str]:
    """Return one line for each property that is unknown, with the nearest known name, or without effect."""
    acted_on = {
        field.name.replace("_", ".")
        for config in (ClientConfig, ProducerConfig, ConsumerConfig)
        for field in fields(config)
    }
    known = acted_on | _WITHOUT_EFFECT | _NEED_NO_WARNING
    warnings = []
    for name in properties:
        if name in _WITHOUT_EFFECT or name.startswith("config.providers."):
            warnings.append(f"`{name}` has no effect in kcli")
        elif name not in known and not name.startswith(_NEED_NO_WARNING_PREFIXES):
            hint = nearest_hint(name, known)
            warnings.append(f"unknown property `{name}`{f', {hint}' if hint else ''}")
    return warnings
