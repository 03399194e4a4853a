"""When to ask for metadata, for which topics, and what the last answer was. Pure: times are parameters.

The client's refresher task drives it: `next_refresh` says when, `begin` starts an attempt, `succeeded` or
`failed` ends it. There is one attempt at a time, however many callers wait. A topic wanted while an attempt
is under way starts another one at once. Attempts back off, counted from the last one, while they fail or
bring nothing new although somebody waits for news; otherwise a snapshot is refreshed at
`metadata.max.age.ms`. Topics nobody used for `metadata.max.idle.ms` are dropped unless they are pinned.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.client.metadata import ClusterMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.client.config import ClientConfig
    from kcli.client.metadata import NewLeader, Node


class WantedTopic:
    """A topic somebody uses. `expires_at` is infinite for a pinned one."""

    __slots__ = ("auto_create", "expires_at")

    def __init__(self, *, auto_create: bool, expires_at: float) -> None:
        self.auto_create = auto_create
        self.expires_at = expires_at


class MetadataCache:
    """The current snapshot and the schedule of its renewal. All times are in seconds."""

    def __init__(self, config: ClientConfig) -> None:
        self.cluster = ClusterMetadata()
        self.version = 0
        self.is_in_flight = False
        self.needs_update = False
        self.wanted: dict[str, WantedTopic] = {}
        self.wants_all = 0
        """How many follow all topics there are."""
        self.is_complete = False
        """Whether the last answer was about all topics."""
        self.listeners: list[Callable[[ClusterMetadata], None]] = []
        self._max_age = config.metadata_max_age_ms / 1000
        self._max_idle = config.metadata_max_idle_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._not_before = -math.inf
        self._last_success = -math.inf
        self._asked_for_all = False
        self._has_unasked = False

    def want(self, topic: str, now: float, *, auto_create: bool = False, pinned: bool = False) -> bool:
        """Keep a topic in the snapshot; return True if it is new, and thus asked for at once."""
        expires_at = math.inf if pinned else now + self._max_idle
        entry = self.wanted.get(topic)
        if entry is not None:
            entry.auto_create |= auto_create
            entry.expires_at = max(entry.expires_at, expires_at)
            return False
        self.wanted[topic] = WantedTopic(auto_create=auto_create, expires_at=expires_at)
        self.needs_update = True
        self._not_before = -math.inf
        self._has_unasked = True
        return True

    def follow_all(self, follow: bool) -> None:
        """Keep all topics in the snapshot, as long as anybody asks for that; False ends one such wish."""
        self.wants_all += 1 if follow else -1
        if follow:
            self.needs_update = self._has_unasked = True
            self._not_before = -math.inf

    def request_update(self) -> int:
        """Ask for an early refresh; return the version whose change will show it."""
        self.needs_update = True
        return self.version

    def next_refresh(self) -> float:
        """Return when the next attempt is due; infinite while one is under way."""
        if self.is_in_flight:
            return math.inf
        due = -math.inf if self.needs_update else self._last_success + self._max_age
        return max(due, self._not_before)

    def begin(self, now: float) -> None:
        """Start an attempt."""
        self.is_in_flight = True
        self.needs_update = False
        self._has_unasked = False
        self._asked_for_all = self.wants_all > 0
        self.wanted = {name: entry for name, entry in self.wanted.items() if entry.expires_at > now}

    def succeeded(self, response: ClusterMetadata, now: float) -> None:
        """Take an answer about the wanted topics."""
        fresh = self.cluster.merged(response, keep=() if self._asked_for_all else self.wanted)
        if fresh == self.cluster:
            self._not_before = now + self._backoff.next_delay()
        else:
            self._backoff.reset()
            self._not_before = now + self._backoff.next_delay() if fresh.errors else -math.inf
        if self._has_unasked:
            self._not_before = -math.inf  # what came to be wanted meanwhile has not been asked for
        self.is_in_flight = False
        self.is_complete = self._asked_for_all
        self._last_success = now
        self._replace(fresh)

    def failed(self, now: float) -> None:
        """Note that an attempt brought nothing; the next one is due after the backoff."""
        self.is_in_flight = False
        self.needs_update = True
        self._not_before = now + self._backoff.next_delay()

    def update_leaders(self, leaders: Iterable[NewLeader], nodes: Iterable[Node]) -> None:
        """Apply the leaders that came with an error response, and the nodes they are on (KIP-951)."""
        cluster = self.cluster
        for partition, leader, leader_epoch in leaders:
            cluster = cluster.with_leader(partition, leader, leader_epoch)
        if cluster is not self.cluster:
            self._replace(cluster.with_nodes(nodes))

    def update_nodes(self, answer: ClusterMetadata) -> None:
        """Take brokers and controller from an answer that the refresher did not ask for.

        Its topics are taken where the snapshot has them already.
        """
        if not answer.nodes:
            return
        merged = self.cluster.merged(answer)
        topics = {name: merged.topics.get(name, topic) for name, topic in self.cluster.topics.items()}
        self._replace(replace(merged, topics=topics, errors=self.cluster.errors))

    def learn_node(self, node: Node) -> None:
        """Take a broker that another answer named, if metadata has not named it yet."""
        if node.node_id not in self.cluster.nodes:
            self._replace(self.cluster.with_nodes([node]))

    def forget_nodes(self) -> None:
        """Drop the brokers, keep the topics: the client goes back to its bootstrap addresses (KIP-899)."""
        self._replace(ClusterMetadata(topics=self.cluster.topics, errors=self.cluster.errors))

    def _replace(self, cluster: ClusterMetadata) -> None:
        self.cluster = cluster
        self.version += 1
        for listener in self.listeners:
            listener(cluster)
