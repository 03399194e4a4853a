"""The filters of ListTransactions."""

from __future__ import annotations

import pytest

from kcli.broker.coordinator.transaction.listing import TransactionFilter
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.coordinator.transaction.virtual_transactions import (
    FIRST_PRODUCER_ID,
    START_MS,
    A,
    VirtualTransactions,
)

OPEN, IDLE, ODD = "app-open", "app idle/1", "größe=1"


def listed(
    *, states: tuple[str, ...] = (), ids: tuple[int, ...] = (), duration: int = -1, pattern: str | None = None
) -> set[str]:
    """Return the ids that pass the filters, a minute after the one transaction began."""
    coordinator = VirtualTransactions()
    for name in (OPEN, IDLE, ODD):
        coordinator.init(name=name)
    coordinator.add((FIRST_PRODUCER_ID, 0), A, name=OPEN)
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(ids),
        duration_filter=duration,
        transactional_id_pattern=pattern,
    )
    wanted = TransactionFilter(request, START_MS + 60_000)
    return {each.transactional_id for each in wanted.listed(coordinator.shard.transactions())}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {OPEN, IDLE, ODD}),
        ({"states": ("Ongoing",)}, {OPEN}),
        ({"states": ("Empty", "Ongoing")}, {OPEN, IDLE, ODD}),
        ({"states": ("Dead",)}, set()),
        ({"states": ("ongoing",)}, set()),
        ({"ids": (FIRST_PRODUCER_ID, 5)}, {OPEN}),
        ({"ids": (FIRST_PRODUCER_ID + 1,)}, {IDLE}),
        ({"ids": (FIRST_PRODUCER_ID + 1,), "states": ("Ongoing",)}, set()),
        # What has no transaction has lasted for ever.
        ({"duration": 59_999}, {OPEN, IDLE, ODD}),
        ({"duration": 60_000}, {IDLE, ODD}),
        ({"duration": 0, "states": ("Ongoing",)}, {OPEN}),
        ({"pattern": ""}, {OPEN, IDLE, ODD}),
        ({"pattern": ".*"}, {OPEN, IDLE, ODD}),
        ({"pattern": "app"}, set()),
        ({"pattern": "app.*"}, {OPEN, IDLE}),
        ({"pattern": r"app\s\w+/[0-9]"}, {IDLE}),
        ({"pattern": "gr..e=1"}, {ODD}),
        ({"pattern": "gr[^a-z]+e=1"}, {ODD}),
        ({"pattern": "(?i)APP-OPEN|x"}, {OPEN}),
    ],
)
def test_what_passes(filters: dict[str, object], expected: set[str]) -> None:
    assert listed(**filters) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a**", "(?=a)", "x{1001}", "(.?){1000}(.?){1000}" * 9])
def test_bad_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        listed(pattern=pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_unknown_states_come_back_once() -> None:
    request = ListTransactionsRequest(
        state_filters=["Empty", "empty", "x", "empty", "Dead"], producer_id_filters=[]
    )
    assert TransactionFilter(request, 0).unknown_states == ["empty", "x"]
