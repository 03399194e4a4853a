"""ClusterAccess: the addresses of brokers and the client properties; plain data that travels to the tasks.

Plan files, logs, `explain` and errors show the properties masked. The functions ask the leaders of partitions
for offsets and sizes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from kcli.client.admin.cluster import describe_log_dirs
from kcli.client.admin.partitions import list_offsets
from kcli.client.client import connect
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.network.bootstrap import parse_bootstrap
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.spark.source.data_loss import name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from kcli.client.admin.types import OffsetAndTimestamp
    from kcli.client.client import Client

MASK = "********"

_SECRET = re.compile(
    r"password|secret|token|credential|jaas|basic\.auth|passphrase|ssl\.key(store)?\.key|\.key$",
    re.IGNORECASE,
)


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with masked credentials."""
    return {name: MASK if _SECRET.search(name) else value for name, value in properties.items()}


Answer = TypeVar("Answer")

FETCH_BYTES = 8 * 1024 * 1024
"""The bytes that one fetch asks for, unless `fetch.max.bytes` or `max.partition.fetch.bytes` is set."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Bootstrap addresses and client properties; `repr` masks the credentials."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClusterAccess({self.bootstrap!r}, {masked(self.properties)!r})"

    @property
    def client_config(self) -> ClientConfig:
        """Return the configuration of connections; raises `UsageError` for a bad property."""
        return ClientConfig.from_properties(self.properties)

    @property
    def consumer_config(self) -> ConsumerConfig:
        """Return the configuration of fetches; raises `UsageError` for a bad property."""
        return ConsumerConfig.from_properties(self.properties)

    @property
    def fetch_bytes(self) -> int:
        config = self.consumer_config
        limits = {
            "fetch.max.bytes": config.fetch_max_bytes,
            "max.partition.fetch.bytes": config.max_partition_fetch_bytes,
        }
        given = [limit for name, limit in limits.items() if name in self.properties]
        return max(1, min(given)) if given else FETCH_BYTES

    def portable(self) -> ClusterAccess:
        """Return the same access for other machines: with the content of key and trust stores."""
        security = self.client_config.security
        if security is None or not security.is_tls:
            return self
        return ClusterAccess(self.bootstrap, security.portable(self.properties))

    def check(self) -> None:
        parse_bootstrap(self.bootstrap)
        _ = self.client_config, self.consumer_config

    def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Connect, ask one question and disconnect; not for a thread that runs trio."""
        return trio.run(partial(self._ask, question))

    async def _ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        async with connect(self.bootstrap, self.client_config) as client:
            return await question(client)


async def offsets_at(
    client: Client, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return the offset per partition for a timestamp or a special value; -1 without a record."""
    answers = await list_offsets(client, timestamps, read_committed=read_committed)
    return {one: _offset(one, answers[one]) for one in timestamps}


async def sizes_of(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition's log on its leader, without those that brokers do not tell."""
    cluster = await client.metadata({one.topic for one in partitions})
    leaders = {one: cluster.leader_of(one) for one in partitions}
    nodes = {leader.leader for leader in leaders.values() if leader is not None}
    answers = await describe_log_dirs(client, nodes, partitions=partitions)
    sizes: dict[TopicPartition, int] = {}
    for node_id, directories in answers.items():
        if isinstance(directories, KcliError):
            continue
        for directory in directories:
            for replica in directory.replicas:
                one = TopicPartition(replica.topic, replica.partition)
                leader = leaders.get(one)
                if leader is not None and leader.leader == node_id and not replica.is_future:
                    sizes[one] = replica.size_bytes
    return sizes


def _offset(partition: TopicPartition, answer: OffsetAndTimestamp | KafkaError) -> int:
    if isinstance(answer, KafkaError):
        raise KcliError(
            f"cannot ask for the offsets of {name_of(partition)}: {answer.message}", hint=answer.hint
        )
    return answer.offset
