"""Client: one object for all brokers of a cluster; it routes requests, retries them and refreshes metadata.

    async with connect("localhost:9092") as client:
        response = await client.request(ANY, DescribeClusterRequest())

One nursery holds the connections and one task that refreshes metadata. A request goes to a broker by id, to
the controller or to the least-loaded broker, in the highest common version, and is sent again after a lost
connection until `default.api.timeout.ms` is over. If no known broker can be reached, the client starts over
from its bootstrap addresses (KIP-899).
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import trio

from kcli.client.config import ClientConfig
from kcli.client.network.background import unwrapped
from kcli.client.network.backoff import Backoff
from kcli.client.network.bootstrap import AuthenticationFailed, Unreachable, open_tcp, parse_bootstrap
from kcli.client.network.connection import Disconnected, RequestTimedOut
from kcli.client.network.metadata import (
    ANY,
    CONTROLLER,
    ClusterMetadata,
    MetadataCache,
    Node,
    metadata_request,
)
from kcli.client.network.node_links import NodeLinks
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence

    from kcli.client.network.bootstrap import OpenStream
    from kcli.client.network.connection import Connection, NodeVersions
    from kcli.client.network.metadata import NewLeader, Target, TopicMetadata
    from kcli.client.network.node_links import NodeLink


class Attempts:
    """The tries of one request: their target, their deadline, and when the next one is due.

    attempts = Attempts(client, node_id, seconds)
    while True:
        try:
            connection = await attempts.connection()
            ...
        except (Disconnected, Unreachable) as error:
            attempts.failed(error)
        await attempts.wait()
    """

    def __init__(self, client: Client, target: Target, seconds: float) -> None:
        now = trio.current_time()
        config = client.config
        self.deadline = now + seconds
        # An unreachable broker is given up earlier than a slow one.
        self._unreachable_at = min(self.deadline, now + config.socket_connection_setup_timeout_ms / 1000)
        self._client = client
        self._target = target
        self._backoff = Backoff.of(config)
        self._last_error: KcliError | None = None
        self._was_connected = False

    async def connection(self) -> Connection:
        connection = await self._link().ready()
        self._was_connected = True
        return connection

    def request_seconds(self) -> float:
        remaining = self.deadline - trio.current_time()
        return min(self._client.config.request_timeout_ms / 1000, max(remaining, 0.001))

    def failed(self, error: KcliError) -> None:
        """Note an error; raise it if the time is up."""
        self._last_error = error
        self._client.request_metadata_update()
        now = trio.current_time()
        if now >= self.deadline or (not self._was_connected and now >= self._unreachable_at):
            raise error

    async def wait(self) -> None:
        """Sleep the backoff, at most until the deadline."""
        delay = self._backoff.next_delay()
        await trio.sleep(min(delay, max(0.0, self.deadline - trio.current_time())))

    def timed_out(self) -> KcliError:
        """Return the error of a request that got no response in time."""
        if self._last_error is not None:
            return self._last_error
        return RequestTimedOut("the broker did not answer in time")

    def _link(self) -> NodeLink:
        target, links = self._target, self._client.links
        cluster = self._client.cluster
        if target is CONTROLLER:
            target = cluster.controller_id if cluster.controller_id in cluster.nodes else ANY
        if isinstance(target, int) and not cluster.nodes:
            raise Disconnected("no broker of the cluster is known at the moment")
        return links.get(target) if isinstance(target, int) else links.least_loaded()


COORDINATOR = "coordinator"
"""The purpose of a link for a member's requests, separate from long fetches."""

COORDINATOR_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors after which the coordinator must be looked up again."""

_RETRIABLE = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FIRST_BATCHED_VERSION = 4


class KeyType(IntEnum):
    """What a coordinator is looked up by. The name says in an error what the key is."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        return "group" if self is KeyType.GROUP else "transactional id"


class Coordinators:
    """The coordinators of groups or of transactional ids, looked up once and cached; shareable by many tasks.

        node = await client.coordinators.find("billing")
        ...
        client.coordinators.forget("billing")      # it answered 15 or 16, or its connection was lost

    FindCoordinator goes to any broker, for several groups at once if the broker can (KIP-699). Retriable
    errors are retried until the time is up: the first lookup creates the coordinators' topic.
    """

    def __init__(self, client: Client, key_type: KeyType = KeyType.GROUP) -> None:
        self._client = client
        self.key_type = key_type
        self._node_ids: dict[str, int] = {}

    def known(self, group_id: str) -> Node | None:
        """Return the group's coordinator if it is cached and still in the cluster."""
        return self._client.cluster.nodes.get(self._node_ids.get(group_id, -1))

    def forget(self, group_id: str) -> None:
        self._node_ids.pop(group_id, None)

    async def find(self, group_id: str, *, timeout_ms: int | None = None) -> Node:
        """Return the group's coordinator; raise `KafkaError` if it is refused, or not found in time."""
        found = (await self.find_many([group_id], timeout_ms=timeout_ms))[group_id]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def find_many(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Node | KafkaError]:
        """Return the coordinator of each group, or the error of its lookup."""
        config = self._client.config
        seconds = (config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = trio.current_time() + seconds
        backoff = Backoff.of(config)
        pending = list(dict.fromkeys(group_ids))
        found: dict[str, Node | KafkaError] = {
            group_id: node for group_id in pending if (node := self.known(group_id)) is not None
        }
        while pending := [group_id for group_id in pending if _is_open(found.get(group_id))]:
            delay = backoff.next_delay() if found.keys() & pending else 0.0
            if delay and trio.current_time() + delay >= deadline:
                break
            await trio.sleep(delay)
            remaining_ms = max(1, round((deadline - trio.current_time()) * 1000))
            found.update(await self._look_up(pending, remaining_ms))
        return found

    async def link(self, group_id: str, *, timeout_ms: int | None = None) -> NodeLink:
        """Return the link to the group's coordinator that carries only group requests."""
        node = await self.find(group_id, timeout_ms=timeout_ms)
        return self._client.links.get(node.node_id, COORDINATOR)

    async def _look_up(self, group_ids: list[str], timeout_ms: int) -> dict[str, Node | KafkaError]:
        """Look up each group once: all in one request, or one by one on old brokers."""
        answers: dict[str, Node | KafkaError] = {}
        rest = group_ids
        while rest:
            answers.update(await self._ask(rest, timeout_ms))
            rest = [group_id for group_id in group_ids if group_id not in answers]
        return answers

    async def _ask(self, group_ids: list[str], timeout_ms: int) -> dict[str, Node | KafkaError]:
        is_batched = False

        def build(version: int) -> FindCoordinatorRequest:
            nonlocal is_batched
            is_batched = version >= _FIRST_BATCHED_VERSION
            if is_batched:
                return FindCoordinatorRequest(coordinator_keys=group_ids, key_type=self.key_type)
            return FindCoordinatorRequest(key=group_ids[0], key_type=self.key_type)

        # Version 0 has no type: it looks up groups.
        response: FindCoordinatorResponse = await self._client.request_by_version(
            ANY,
            FindCoordinatorRequest,
            build,
            timeout_ms=timeout_ms,
            min_version=1 if self.key_type is not KeyType.GROUP else 0,
        )
        if not is_batched:
            node = Node(response.node_id, response.host, response.port)
            found = self._learn(group_ids[0], node, response.error_code, response.error_message)
            return {group_ids[0]: found}
        answers: dict[str, Node | KafkaError] = {key: _left_out(self.key_type, key) for key in group_ids}
        for entry in response.coordinators:
            node = Node(entry.node_id, entry.host, entry.port)
            answers[entry.key] = self._learn(entry.key, node, entry.error_code, entry.error_message)
        return answers

    def _learn(self, group_id: str, node: Node, code: int, message: str | None) -> Node | KafkaError:
        if code:
            return KafkaError(ErrorCode.of(code), message or None)
        self._client.cache.learn_node(node)
        self._node_ids[group_id] = node.node_id
        return self._client.cluster.nodes[node.node_id]


def _left_out(key_type: KeyType, key: str) -> KafkaError:
    message = f"the broker left {key_type.noun} `{key}` out of its answer"
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _is_open(answer: Node | KafkaError | None) -> bool:
    return answer is None or (isinstance(answer, KafkaError) and answer.code in _RETRIABLE)


@asynccontextmanager
async def connect(
    bootstrap: str,
    config: ClientConfig | None = None,
    *,
    timeout_ms: int | None = None,
    open_stream: OpenStream = open_tcp,
) -> AsyncIterator[Client]:
    """Open a client to the cluster behind `host:port,host:port`.

    Raises `KcliError` naming the addresses if none answers as a broker: after about two seconds if they
    refuse, at once for an unknown host, within the setup timeout for a silent one. `default.api.timeout.ms`,
    or a shorter `timeout_ms`, limits all of it.
    """
    config = config or ClientConfig()
    nodes = parse_bootstrap(bootstrap)
    if config.security is not None and config.security.is_tls:
        # A store that cannot be read is no failure of a connection.
        config.security.tls_context()
    with unwrapped():
        async with trio.open_nursery() as nursery:
            client = Client(nodes, config, nursery=nursery, open_stream=open_stream)
            try:
                await client.start(timeout_ms)
                yield client
            finally:
                nursery.cancel_scope.cancel()


KEPT_EXCHANGES = 8


class Client:
    """Connections to the brokers of one cluster. Made by `connect`; shareable by many tasks.

    `exchanges` are the last requests for administration with their responses: an authorization error alone
    does not say what was denied.
    """

    def __init__(
        self, bootstrap: list[Node], config: ClientConfig, *, nursery: trio.Nursery, open_stream: OpenStream
    ) -> None:
        self.config = config
        self.nursery = nursery
        self.cache = MetadataCache(config)
        self.coordinators = Coordinators(self)
        self.transaction_coordinators = Coordinators(self, KeyType.TRANSACTION)
        self.links = NodeLinks(
            bootstrap,
            self.cache,
            config=config,
            nursery=nursery,
            open_stream=open_stream,
            on_lost=self.request_metadata_update,
        )
        self.exchanges: deque[tuple[Any, Any]] = deque(maxlen=KEPT_EXCHANGES)
        self._refresh_wanted = trio.Event()
        self._refreshed = trio.Event()

    @property
    def cluster(self) -> ClusterMetadata:
        return self.cache.cluster

    async def start(self, timeout_ms: int | None = None) -> None:
        """Reach one bootstrap address, fetch the first metadata, and start to refresh it."""
        overall_ms = self.config.default_api_timeout_ms
        seconds = (overall_ms if timeout_ms is None else min(timeout_ms, overall_ms)) / 1000
        deadline = trio.current_time() + seconds
        await self.links.reach_bootstrap(seconds)
        address = self.links.least_loaded().node.address
        try:
            await self.metadata((), timeout_ms=round((deadline - trio.current_time()) * 1000))
        except RequestTimedOut as error:
            # Report the whole time that the user gave, not the rest of it.
            raise RequestTimedOut(
                f"{address} did not answer within {seconds:g} s",
                hint="check the broker: it took the connection",
            ) from error
        self.nursery.start_soon(self._keep_fresh)

    async def request(
        self,
        target: Target,
        request: Any,  # noqa: ANN401  # any request class
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:  # noqa: ANN401  # the type follows from the request
        """Return the response; raise `UnsupportedVersion`, or the last error when the time is up."""
        return await self.request_by_version(
            target,
            type(request),
            lambda version: request,
            timeout_ms=timeout_ms,
            min_version=min_version,
            max_version=max_version,
        )

    async def request_by_version(
        self,
        target: Target,
        request_class: type[Any],
        build: Callable[[int], Any],
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:  # noqa: ANN401  # the type follows from the request
        """As `request`, for a request whose content depends on its version."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        attempts = Attempts(self, target, timeout_ms / 1000)
        while True:
            try:
                with trio.move_on_at(attempts.deadline):
                    connection = await attempts.connection()
                    version = connection.versions.choose(
                        request_class, min_version=min_version, max_version=max_version
                    )
                    request = build(version)
                    response = await connection.request(request, version, seconds=attempts.request_seconds())
                    self.exchanges.append((request, response))
                    return response
                raise attempts.timed_out()
            except (Disconnected, Unreachable) as error:
                attempts.failed(error)
            await attempts.wait()

    async def supports(self, request_class: type[Any], *, min_version: int = 0) -> bool:
        """Return whether a broker has a common version of this API, of at least `min_version`."""
        connection = await self._connection(ANY)
        return connection.versions.supports(request_class, min_version=min_version)

    async def node_versions(
        self, node_id: int, *, timeout_ms: int | None = None
    ) -> tuple[Node, NodeVersions]:
        """Return a broker and what it advertises."""
        connection = await self._connection(node_id, timeout_ms)
        return self.cluster.nodes[node_id], connection.versions

    async def _connection(self, target: Target, timeout_ms: int | None = None) -> Connection:
        seconds = (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        attempts = Attempts(self, target, seconds)
        while True:
            try:
                with trio.move_on_at(attempts.deadline):
                    return await attempts.connection()
                raise attempts.timed_out()
            except (Disconnected, Unreachable) as error:
                attempts.failed(error)
            await attempts.wait()

    async def metadata(
        self, topics: Collection[str] | None = None, *, timeout_ms: int | None = None
    ) -> ClusterMetadata:
        """Return fresh metadata of all topics, or of some, and update the snapshot; creates no topic."""
        response: MetadataResponse = await self.request_by_version(
            ANY,
            MetadataRequest,
            lambda version: metadata_request(topics, version, auto_create=False),
            timeout_ms=timeout_ms,
        )
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        answer = ClusterMetadata.of(response)
        known = self.cluster
        self.cache.update_nodes(answer)
        self.links.replace_moved()
        return known.merged(answer)

    def request_metadata_update(self) -> None:
        """Refresh the snapshot soon."""
        self.cache.request_update()
        self._refresh_wanted.set()

    def want_topic(self, topic: str, *, auto_create: bool = False, pinned: bool = False) -> None:
        """Keep a topic in the snapshot; with `auto_create` the broker may create it."""
        if self.cache.want(topic, trio.current_time(), auto_create=auto_create, pinned=pinned):
            self._refresh_wanted.set()

    def follow_all_topics(self, follow: bool) -> None:
        """Keep all topics in the snapshot; each True needs one False to end it."""
        self.cache.follow_all(follow)
        self._refresh_wanted.set()

    async def wait_for_topic(self, topic: str, *, auto_create: bool = False) -> TopicMetadata:
        """Return a topic's metadata, waiting until it is known.

        Raises `KafkaError` at once if the topic is refused (not authorized, invalid name). It waits for a
        topic that does not exist: limit the wait with a cancel scope.
        """
        while True:
            self.want_topic(topic, auto_create=auto_create)
            found = self.cluster.topics.get(topic)
            if found is not None and found.partitions:
                return found
            error = self.cluster.errors.get(topic)
            if error is not None and not error.retriable:
                raise KafkaError(error, f"{error.description}: {topic}")
            await self.wait_for_refresh()

    async def wait_for_refresh(self) -> None:
        """Refresh the snapshot and wait for it."""
        self.request_metadata_update()
        await self._refreshed.wait()

    async def wait_for_all_topics(self) -> ClusterMetadata:
        """Return fresh metadata of all topics; needs `follow_all_topics`."""
        while True:
            await self.wait_for_refresh()
            if self.cache.is_complete:
                return self.cluster

    def apply_new_leaders(self, leaders: Sequence[NewLeader], nodes: Sequence[Node]) -> None:
        """Apply the leaders in an error response, and their nodes (KIP-951)."""
        self.cache.update_leaders(leaders, nodes)
        self.links.replace_moved()

    async def _keep_fresh(self) -> None:
        while True:
            self._refresh_wanted = trio.Event()
            with trio.move_on_at(self.cache.next_refresh()):
                await self._refresh_wanted.wait()
            if self.cache.next_refresh() > trio.current_time():
                continue
            self.cache.begin(trio.current_time())
            try:
                answer = await self._wanted_metadata()
            except AuthenticationFailed:
                # It would fail again: whoever waits for metadata is not to wait for nothing.
                raise
            except KcliError:
                # No broker answers now. Callers that wait have a time limit and an error of their own.
                self.cache.failed(trio.current_time())
                if self.links.all_failing:
                    self._rebootstrap()
                continue
            self.cache.succeeded(answer, trio.current_time())
            self.links.replace_moved()
            self._refreshed.set()
            self._refreshed = trio.Event()

    async def _wanted_metadata(self) -> ClusterMetadata:
        """Fetch the metadata of the wanted topics; those to be created need a request of their own."""
        answers: list[ClusterMetadata] = []
        wanted = self.cache.wanted
        for auto_create in (False, True):
            names = [name for name, entry in wanted.items() if entry.auto_create is auto_create]
            if self.cache.wants_all and not auto_create:
                answers.append((await self._metadata_once(None, auto_create=False)).lacking(names))
            elif names or (not auto_create and not wanted):
                answers.append(await self._metadata_once(names, auto_create=auto_create))
        answer = answers[-1]
        for other in answers[:-1]:
            answer = answer.with_topics_of(other)
        return answer

    async def _metadata_once(self, names: list[str] | None, *, auto_create: bool) -> ClusterMetadata:
        connection = await self.links.least_loaded().ready()
        version = connection.versions.choose(MetadataRequest)
        request = metadata_request(names, version, auto_create=auto_create)
        response: MetadataResponse = await connection.request(request, version)
        self.exchanges.append((request, response))
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap()
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code))
        if not response.brokers:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the metadata names no broker")
        return ClusterMetadata.of(response)

    def _rebootstrap(self) -> None:
        if self.config.metadata_recovery_strategy == "rebootstrap":
            self.cache.forget_nodes()
            self.links.replace_moved()
