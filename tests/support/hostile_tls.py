"""Bytes of TLS as nobody should send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


def mutated(data: bytes, choose: Random) -> bytes:
    """Return bytes that were flipped, cut, doubled or put in somewhere."""
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 3))):
        at = choose.randrange(len(changed) + 1)
        match choose.randrange(4):
            case 0 if at < len(changed):
                changed[at] ^= 1 << choose.randrange(8)
            case 1:
                del changed[at : at + choose.choice((1, 10, 1000))]
            case 2:
                changed[at:at] = changed[: choose.randrange(100)]
            case _:
                changed[at:at] = choose.randbytes(choose.choice((1, 5, 70_000)))
    return bytes(changed)
