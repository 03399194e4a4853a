"""The options of the data source's sink: names and refusals of Spark's own Kafka sink, and transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.client.config import ClientConfig, ProducerConfig
from kcli.errors import UsageError
from kcli.spark.ranges.option_values import OptionValues

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFUSED = {
    "key.serializer": "keys are written as bytes: make them binary or string with DataFrame operations",
    "value.serializer": "values are written as bytes: make them binary or string with DataFrame operations",
    "transactional.id": "records are written at least once, without transactions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where a DataFrame is written to; `properties` are those of our client and may hold passwords."""

    bootstrap: str
    topic: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write, checked; raise `UsageError` for what is refused."""
    given = OptionValues(dict(options))
    for name, hint in _REFUSED.items():
        if f"kafka.{name}" in given:
            raise UsageError(f"the option `kafka.{name}` is not supported", hint=hint)
    properties = given.kafka_properties()
    bootstrap = properties.pop("bootstrap.servers", "").strip()
    if not bootstrap:
        raise UsageError(
            "the option `kafka.bootstrap.servers` is needed for writing", hint="give host:port,host:port"
        )
    ClientConfig.from_properties(properties)
    ProducerConfig.from_properties(properties)
    topic = given.get("topic", "")
    return SinkOptions(bootstrap=bootstrap, topic=topic or None, properties=properties)
