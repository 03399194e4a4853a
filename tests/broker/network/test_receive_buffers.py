"""ReceiveBuffers: sizes, reuse, and the bounds of the pool."""

from __future__ import annotations

import pytest

from kcli.broker.network.inbox import (
    MAX_POOLED_CLASS_BYTES,
    MIN_CLASS_BYTES,
    POOLED_BYTES,
    POOLED_PER_CLASS,
    ReceiveBuffers,
)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, MIN_CLASS_BYTES),
        (MIN_CLASS_BYTES, MIN_CLASS_BYTES),
        (MIN_CLASS_BYTES + 1, 2 * MIN_CLASS_BYTES),
        (1_000_000, 1 << 20),
        (MAX_POOLED_CLASS_BYTES + 1, MAX_POOLED_CLASS_BYTES + 1),
    ],
)
def test_a_buffer_is_of_a_class_or_too_large_for_one(size: int, expected: int) -> None:
    assert len(ReceiveBuffers().take(size)) == expected


def test_a_buffer_is_used_again() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(100_000)
    buffers.give_back(first)
    assert buffers.pooled_bytes == 131_072
    assert buffers.take(70_000) is first
    assert buffers.pooled_bytes == 0


def test_the_pool_is_bounded() -> None:
    buffers = ReceiveBuffers()
    for size in (20_000, 1 << 20, 1 << 23, MAX_POOLED_CLASS_BYTES, 2 * MAX_POOLED_CLASS_BYTES):
        for taken in [buffers.take(size) for _ in range(POOLED_PER_CLASS + 2)]:
            buffers.give_back(taken)
    assert buffers.pooled_bytes <= POOLED_BYTES
