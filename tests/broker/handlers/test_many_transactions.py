"""Lists and descriptions of thousands of transactional ids: all are there, and others run meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.coordinator.transaction.transaction import Transaction
from kcli.broker.handlers.transactions import DESCRIBED_AT_ONCE, LISTED_AT_ONCE
from kcli.broker.network.apis import APIS
from kcli.broker.network.request_context import RequestContext
from kcli.broker.network.request_engine import RequestEngine
from kcli.broker.network.responses import AwaitedResponse
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response
from kcli.protocol.internal.coordinator_records import TransactionLogKey
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from tests.broker.single_node import LISTENER, START_MS, Node, running_node
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from pathlib import Path

LIST, DESCRIBE = 66, 65


def coordinate(node: Node, count: int) -> list[str]:
    """Let a node coordinate transactional ids; return them."""
    node.create_topic(TRANSACTION_STATE_TOPIC)
    ids = [f"id-{number:06}" for number in range(count)]
    for number, name in enumerate(ids):
        value = Transaction(name, number, 0, 60_000, START_MS).to_value(1)
        node.transactions.shard(0).replay(TransactionLogKey(transactional_id=name), value)
    return ids


def feed(node: Node, request: Any) -> Any:
    """Feed a request to the engine of a node, as a connection does."""
    context = RequestContext(node, LISTENER, "test", APIS)  # type: ignore[arg-type]  # it stands for a broker
    frame = request_frame(request, 0)
    return RequestEngine(APIS).feed(context, memoryview(frame), 4, len(frame))


async def turns_of(answer: Any) -> tuple[int, bytes]:
    """Return how often others ran until the answer was there, and its frame."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    assert type(answer) is AwaitedResponse
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        (frame,) = await answer
        nursery.cancel_scope.cancel()
    return turns, frame[4:]


async def test_others_run_while_very_many_ids_are_listed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        ids = coordinate(node, 3 * LISTED_AT_ONCE)
        request = ListTransactionsRequest(state_filters=["Empty", "None"], producer_id_filters=[])
        turns, frame = await turns_of(feed(node, request))
        assert turns > 1
        _, response = decode_response(LIST, 0, frame)
        assert [each.transactional_id for each in response.transaction_states] == ids
        assert response.unknown_state_filters == ["None"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_others_run_while_many_ids_are_described(is_known: bool, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        (name,) = coordinate(node, 1)
        names = [name if is_known else "unknown"] * 100
        turns, frame = await turns_of(feed(node, DescribeTransactionsRequest(transactional_ids=names)))
        assert turns > 50
        _, response = decode_response(DESCRIBE, 0, frame)
        expected = ErrorCode.NONE if is_known else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert [(each.transactional_id, each.error_code) for each in response.transaction_states] == [
            (name, expected) for name in names
        ]


async def test_a_few_are_answered_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        ids = coordinate(node, LISTED_AT_ONCE)
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        assert type(feed(node, request)) is tuple
        few = DescribeTransactionsRequest(transactional_ids=ids[:DESCRIBED_AT_ONCE])
        assert type(feed(node, few)) is tuple
