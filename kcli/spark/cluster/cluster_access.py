"""ClusterAccess: where the brokers are and how to speak to them; plain data that travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from kcli.client.client import connect
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.network.bootstrap import parse_bootstrap
from kcli.spark.cluster.masking import masked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kcli.client.client import Client

Answer = TypeVar("Answer")

FETCH_BYTES = 8 * 1024 * 1024
"""What one fetch asks for, unless `fetch.max.bytes` or `max.partition.fetch.bytes` says otherwise."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Bootstrap addresses and client properties, whose secrets `repr` does not show."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClusterAccess({self.bootstrap!r}, {masked(self.properties)!r})"

    @property
    def client_config(self) -> ClientConfig:
        """Return how connections are made; raises `UsageError` for a bad property."""
        return ClientConfig.from_properties(self.properties)

    @property
    def consumer_config(self) -> ConsumerConfig:
        """Return how records are fetched; raises `UsageError` for a bad property."""
        return ConsumerConfig.from_properties(self.properties)

    @property
    def fetch_bytes(self) -> int:
        """Return how many bytes one fetch asks for."""
        config = self.consumer_config
        given = [
            value
            for name, value in (
                ("fetch.max.bytes", config.fetch_max_bytes),
                ("max.partition.fetch.bytes", config.max_partition_fetch_bytes),
            )
            if name in self.properties
        ]
        return max(1, min(given)) if given else FETCH_BYTES

    def check(self) -> None:
        """Raise `UsageError` for addresses that are none and properties that cannot be."""
        parse_bootstrap(self.bootstrap)
        _ = self.client_config, self.consumer_config

    def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Connect, put one question and disconnect; must not be called on a thread that runs trio."""
        return trio.run(partial(self._ask, question))

    async def _ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        async with connect(self.bootstrap, self.client_config) as client:
            return await question(client)
