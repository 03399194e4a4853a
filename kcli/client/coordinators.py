"""Coordinators: which broker coordinates each group, asked once and kept until it turns out to be wrong.

    node = await client.coordinators.find("billing")
    ...
    client.coordinators.forget("billing")      # it answered 15 or 16, or the connection to it was lost

FindCoordinator goes to any broker, about several groups at once where the broker can (KIP-699). Answers that
say "later" are retried with backoff until the time is up: the first lookup makes the coordinators' topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.metadata import Node
from kcli.client.routing import ANY
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.client import Client
    from kcli.client.node_link import NodeLink

COORDINATOR = "coordinator"
"""The purpose of a link that carries a member's requests, kept apart from fetches that wait."""

COORDINATOR_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Codes after which the coordinator is to be forgotten and looked up again."""

_LATER = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FIRST_BATCHED_VERSION = 4


class Coordinators:
    """The coordinators of one client's groups. Made by `Client`; shareable by many tasks."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._node_ids: dict[str, int] = {}

    def known(self, group_id: str) -> Node | None:
        """Return the group's coordinator if it has been looked up and is still in the cluster."""
        return self._client.cluster.nodes.get(self._node_ids.get(group_id, -1))

    def forget(self, group_id: str) -> None:
        """Have the coordinator looked up again the next time."""
        self._node_ids.pop(group_id, None)

    async def find(self, group_id: str, *, timeout_ms: int | None = None) -> Node:
        """Return the group's coordinator.

        Raises `KafkaError` if the lookup is refused, at once, or answered with "later" until the time is up.
        """
        found = (await self.find_many([group_id], timeout_ms=timeout_ms))[group_id]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def find_many(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Node | KafkaError]:
        """Return the coordinator of each group, or why its lookup was refused."""
        config = self._client.config
        seconds = (config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = trio.current_time() + seconds
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        found: dict[str, Node | KafkaError] = {}
        pending = list(dict.fromkeys(group_ids))
        for group_id in pending:
            node = self.known(group_id)
            if node is not None:
                found[group_id] = node
        while pending := [group_id for group_id in pending if _is_open(found.get(group_id))]:
            delay = backoff.next_delay() if found.keys() & pending else 0.0
            if delay and trio.current_time() + delay >= deadline:
                break
            await trio.sleep(delay)
            remaining_ms = max(1, round((deadline - trio.current_time()) * 1000))
            found.update(await self._look_up(pending, remaining_ms))
        return found

    async def link(self, group_id: str, *, timeout_ms: int | None = None) -> NodeLink:
        """Return the link to the group's coordinator that carries nothing else."""
        node = await self.find(group_id, timeout_ms=timeout_ms)
        return self._client.links.get(node.node_id, COORDINATOR)

    async def _look_up(self, group_ids: list[str], timeout_ms: int) -> dict[str, Node | KafkaError]:
        """Ask once about each group: about all at once, or a broker that cannot do that about one by one."""
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
                return FindCoordinatorRequest(coordinator_keys=group_ids)
            return FindCoordinatorRequest(key=group_ids[0])

        response: FindCoordinatorResponse = await self._client.request_by_version(
            ANY, FindCoordinatorRequest, build, timeout_ms=timeout_ms
        )
        if not is_batched:
            node = Node(response.node_id, response.host, response.port)
            return {
                group_ids[0]: self._learn(group_ids[0], node, response.error_code, response.error_message)
            }
        answers: dict[str, Node | KafkaError] = {group_id: _left_out(group_id) for group_id in group_ids}
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


def _left_out(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left group `{group_id}` out of its answer")


def _is_open(answer: Node | KafkaError | None) -> bool:
    return answer is None or (isinstance(answer, KafkaError) and answer.code in _LATER)
