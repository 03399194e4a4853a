"""Fetcher: fetches data for the assigned partitions; FetchSession: an incremental fetch session (KIP-227)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.client.fetch.completed_fetch import BadFetch, CompletedFetch
from kcli.client.fetch.position_resets import PositionResets
from kcli.client.network.bootstrap import AuthenticationFailed
from kcli.client.network.connection import UnsupportedVersion
from kcli.client.network.metadata import STALE_METADATA, NewLeader, Node
from kcli.client.network.retry_warnings import RetryWarnings
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import AssignedPartition, AssignedPartitions
    from kcli.client.network.connection import NodeVersions
    from kcli.client.network.metadata import ClusterMetadata


MAX_EPOCH = 2**31 - 1


class FetchTarget(NamedTuple):
    """The fields of one partition in a fetch request."""

    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    leader_epoch: int


class FetchSession:
    """The client's side of an incremental fetch session with one broker (KIP-227).

    Session 0 with epoch 0 requests a new session and names every partition. Later requests name only added,
    changed and forgotten partitions. Epochs count 1, 2, ... and wrap to 1. A broker that answers session 0
    keeps no session; then every request is a full one.
    """

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self._known: dict[TopicPartition, FetchTarget] = {}

    def reset(self) -> None:
        """Start a new session with the next request."""
        self.session_id = self.epoch = 0
        self._known = {}

    def build(
        self, targets: Mapping[TopicPartition, FetchTarget]
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the topics that the next request names and forgets, and remember `targets`."""
        known = self._known
        forgotten: dict[tuple[str, bytes], list[int]] = {}
        for partition, target in known.items():
            replaced = targets.get(partition)
            if replaced is None or replaced.topic_id != target.topic_id:
                forgotten.setdefault((partition.topic, target.topic_id), []).append(partition.partition)
        named: dict[tuple[str, bytes], list[FetchPartition]] = {}
        for partition, target in targets.items():
            if known.get(partition) != target:
                named.setdefault((partition.topic, target.topic_id), []).append(
                    FetchPartition(
                        partition=partition.partition,
                        current_leader_epoch=target.leader_epoch,
                        fetch_offset=target.fetch_offset,
                        partition_max_bytes=target.max_bytes,
                    )
                )
        self._known = dict(targets)
        return (
            [
                FetchTopic(topic=name, topic_id=ident, partitions=rows)
                for (name, ident), rows in named.items()
            ],
            [
                ForgottenTopic(topic=name, topic_id=ident, partitions=rows)
                for (name, ident), rows in forgotten.items()
            ],
        )

    def topic_names(self) -> dict[bytes, str]:
        """Return the names of the topics in the session by id, because responses use ids."""
        return {target.topic_id: partition.topic for partition, target in self._known.items()}

    def answered(self, session_id: int) -> None:
        """Continue the session of a response without an error."""
        if session_id == 0:
            self.reset()
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1


HOLD_BACK_SECONDS = 0.1
"""How long a fetch for partitions without news is delayed while others of their node are full."""

MAX_VERSION_BY_NAME = 12
"""The last Fetch version that names topics; later ones need their ids."""

SESSION_ERRORS = frozenset(ErrorCode.of(code) for code in (70, 71, 106))
PASSING = frozenset(ErrorCode.of(code) for code in (75, 78, -1))


class FetchedPartition(NamedTuple):
    """A partition in a fetch request, with its token at that time."""

    state: AssignedPartition
    offset: int
    token: object

    @property
    def is_current(self) -> bool:
        """Return whether the position was not changed since the request."""
        return self.state.token is self.token


class Fetcher:
    """The tasks behind a consumer.

    One task starts fetches: at most one per node, naming every partition that the node leads, that is not
    paused and has room. One response is fetched ahead of the one being handed out, so that network and
    application overlap. While some partitions of a node are full, a fetch for those without news is delayed a
    little and then sent without a wait time: a long poll for them would delay the busy ones, because a node
    answers one fetch at a time.

    `PositionResets` finds missing positions. Errors that are not retriable are raised by the next `poll`.

    | error of a partition | what follows                                                   |
    |----------------------|----------------------------------------------------------------|
    | 1                    | from a follower: back to the leader; else the reset strategy   |
    | `STALE_METADATA`     | new metadata, again after a backoff                            |
    | 75, 78, -1           | again after a backoff                                          |
    | any other error      | raised, with partition and offset                              |
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        assigned: AssignedPartitions,
        wall_ms: Callable[[], int],
        warn: Callable[[str], None],
    ) -> None:
        self.error: KcliError | None = None
        self.arrived = trio.Event()
        """The event of the next data, position or error."""
        self.start_committed: Callable[[trio.Nursery], float] | None = None
        """In a group: starts the look-up of committed offsets if it is due; returns when the next one is."""
        self._client = client
        self._config = config
        self._assigned = assigned
        self._wall_ms = wall_ms
        self._wakeup = trio.Event()
        self._outstanding: set[int] = set()
        self._held_since: dict[int, float] = {}
        self._sessions: dict[int, FetchSession] = {}
        self.warnings = RetryWarnings(warn)
        self._resets = PositionResets(
            client,
            config,
            assigned=assigned,
            wall_ms=wall_ms,
            ended=self.position_ended,
            warn=warn,
            warnings=self.warnings,
        )
        client.cache.listeners.append(self._metadata_changed)

    def wake(self) -> None:
        """Start the fetches that have become possible."""
        self._wakeup.set()

    def close(self) -> None:
        if self._metadata_changed in self._client.cache.listeners:
            self._client.cache.listeners.remove(self._metadata_changed)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._wakeup = trio.Event()
                next_look = min(self._resets.start(nursery), self._start_fetches(nursery))
                if self.start_committed is not None:
                    next_look = min(next_look, self.start_committed(nursery))
                with trio.move_on_at(next_look):
                    await self._wakeup.wait()

    def _metadata_changed(self, cluster: ClusterMetadata) -> None:
        self.wake()

    def tell(self) -> None:
        """Wake the poll that waits."""
        self.arrived.set()
        self.arrived = trio.Event()

    def _fail(self, error: KcliError) -> None:
        self.error = self.error or error
        self.tell()

    def position_ended(self, error: KcliError | None) -> None:
        """Note the end of a search for positions, and its error if it failed."""
        self.error = self.error or error
        self.tell()
        self.wake()

    def _start_fetches(self, nursery: trio.Nursery) -> float:
        now = trio.current_time()
        next_look = math.inf
        fetchable, full = self._by_node(now)
        for node_id, states in fetchable.items():
            if node_id in self._outstanding:
                continue
            if node_id in full and all(state.is_idle for state in states):
                due = self._held_since.setdefault(node_id, now) + HOLD_BACK_SECONDS
                if due > now:
                    next_look = min(next_look, due)
                    continue
            self._held_since.pop(node_id, None)
            self._outstanding.add(node_id)
            for state in states:
                state.is_in_flight = True
            max_wait_ms = 0 if node_id in full else self._config.fetch_max_wait_ms
            asked = [FetchedPartition(state, state.fetch_position, state.token) for state in states]
            nursery.start_soon(self._fetch, node_id, asked, max_wait_ms)
        for state in self._assigned.partitions.values():
            if state.is_fetchable and state.retry_at > now:
                next_look = min(next_look, state.retry_at)
        return next_look

    def _by_node(self, now: float) -> tuple[dict[int, list[AssignedPartition]], set[int]]:
        """Return the fetchable partitions by the node to ask, and the nodes that have full ones."""
        cluster = self._client.cluster
        fetchable: dict[int, list[AssignedPartition]] = {}
        full: set[int] = set()
        leaderless = False
        for state in self._assigned.partitions.values():
            if not (state.is_fetchable or state.is_full) or state.retry_at > now:
                continue
            leader = cluster.leader_of(state.partition)
            if leader is None:
                self._client.want_topic(state.partition.topic, pinned=True)
                leaderless = True
                continue
            state.leader_epoch = leader.leader_epoch
            preferred = state.preferred_replica
            node_id = preferred if preferred in cluster.nodes else leader.leader
            if state.is_full:
                full.add(node_id)
            else:
                fetchable.setdefault(node_id, []).append(state)
        if leaderless:
            self._client.request_metadata_update()
        return fetchable, full

    async def _fetch(self, node_id: int, asked: list[FetchedPartition], max_wait_ms: int) -> None:
        session = self._sessions.setdefault(node_id, FetchSession())
        states = [row.state for row in asked]
        try:
            connection = await self._client.links.get(node_id, "fetch").ready()
            # Connecting takes time: skip partitions that were sought or reset meanwhile.
            asked = [row for row in asked if row.is_current]
            if not asked:
                return
            request, version = self._request(connection.versions, session, asked, max_wait_ms)
            seconds = (self._client.config.request_timeout_ms + max_wait_ms) / 1000
            response: FetchResponse = await connection.request(request, version, seconds=seconds)
        except AuthenticationFailed:
            # It would fail again: the consumer ends with it.
            raise
        except KcliError as error:
            session.reset()
            self._node_failed(error, states)
        else:
            self._answered(node_id, session, asked, response)
        finally:
            self._outstanding.discard(node_id)
            for state in states:
                state.is_in_flight = False
            # Partitions that were sought meanwhile are fetchable only now.
            self.tell()
            self.wake()

    def _request(
        self, versions: NodeVersions, session: FetchSession, asked: list[FetchedPartition], max_wait_ms: int
    ) -> tuple[FetchRequest, int]:
        cluster = self._client.cluster
        config = self._config
        targets: dict[TopicPartition, FetchTarget] = {}
        has_ids = True
        for state, offset, _ in asked:
            known = cluster.topics.get(state.partition.topic)
            topic_id = known.topic_id if known is not None else ZERO_UUID
            has_ids = has_ids and topic_id != ZERO_UUID
            targets[state.partition] = FetchTarget(
                topic_id, offset, config.max_partition_fetch_bytes, state.leader_epoch
            )
        version = versions.choose(
            FetchRequest, min_version=4, max_version=None if has_ids else MAX_VERSION_BY_NAME
        )
        if version < 7:
            session.reset()
        topics, forgotten = session.build(targets)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.is_read_committed),
            session_id=session.session_id,
            session_epoch=session.epoch if version >= 7 else -1,
            topics=topics,
            forgotten_topics_data=forgotten if version >= 7 else [],
            rack_id=config.client_rack,
        )
        return request, version

    def _node_failed(self, error: KcliError, states: list[AssignedPartition]) -> None:
        self._client.request_metadata_update()
        retry_at = trio.current_time() + self._client.config.retry_backoff_ms / 1000
        for state in states:
            state.retry_at = retry_at
            state.preferred_replica = -1
        if isinstance(error, UnsupportedVersion):
            self._fail(error)

    def _answered(
        self, node_id: int, session: FetchSession, asked: list[FetchedPartition], response: FetchResponse
    ) -> None:
        if response.error_code != ErrorCode.NONE:
            # The session or its topics are unknown now: the next request is a full one.
            session.reset()
            self._client.request_metadata_update()
            if ErrorCode.of(response.error_code) not in SESSION_ERRORS:
                error = KafkaError(ErrorCode.of(response.error_code))
                self._node_failed(error, [row.state for row in asked])
            return
        names = session.topic_names()
        session.answered(response.session_id)
        rows = {row.state.partition: row for row in asked}
        for row in asked:
            row.state.is_idle = True
        leaders: list[NewLeader] = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                known = rows.get(partition)
                if known is None or not known.is_current:
                    continue  # sought or reset meanwhile
                leader = data.current_leader
                if leader.leader_id >= 0:
                    leaders.append(NewLeader(partition, leader.leader_id, leader.leader_epoch))
                self._take(node_id, known.state, known.offset, data)
        if leaders:
            nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
            self._client.apply_new_leaders(leaders, nodes)

    def _take(self, node_id: int, state: AssignedPartition, offset: int, data: PartitionData) -> None:
        code = ErrorCode.of(data.error_code)
        if code is not ErrorCode.NONE:
            self._partition_failed(node_id, state, offset, code)
            return
        state.high_watermark = data.high_watermark
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.is_idle = False
        if not data.records:
            return
        fetch = CompletedFetch(
            state.partition,
            offset,
            state.token,
            data,
            is_read_committed=self._config.is_read_committed,
            check_crcs=self._config.check_crcs,
        )
        state.is_idle = False
        if fetch.end_offset == offset:
            self._fail(
                BadFetch(
                    f"no whole record batch at {state.partition}@{offset}: {len(data.records)} bytes",
                    hint="raise `max.partition.fetch.bytes`, or the broker's answer is damaged",
                )
            )
            state.retry_at = math.inf
            return
        state.buffered.append(fetch)
        state.fetch_position = fetch.end_offset
        self._assigned.move_to_end(state.partition)

    def _partition_failed(self, node_id: int, state: AssignedPartition, offset: int, code: ErrorCode) -> None:
        retry_at = trio.current_time() + self._client.config.retry_backoff_ms / 1000
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica == node_id:
                state.preferred_replica = -1
            elif offset == state.position:
                self._out_of_range(state, offset)
            else:
                state.retry_at = retry_at  # what is buffered comes first
        elif code in STALE_METADATA or code in PASSING:
            state.retry_at = retry_at
            state.preferred_replica = -1
            if code in STALE_METADATA:
                self._client.want_topic(state.partition.topic, pinned=True)
                self._client.request_metadata_update()
        else:
            state.retry_at = math.inf
            self._fail(KafkaError(code, f"cannot read {state.partition}@{offset}: {code.description}"))

    def _out_of_range(self, state: AssignedPartition, offset: int) -> None:
        strategy = self._assigned.reset_strategy
        if strategy != "none":
            state.reset(strategy, out_of_range=offset)
            return
        state.retry_at = math.inf
        self._fail(
            KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is out of range for {state.partition}",
                hint="seek, or set `auto.offset.reset` to earliest or latest",
            )
        )
