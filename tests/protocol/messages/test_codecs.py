"""Every message in every version: what is encoded decodes to the same; damage raises `DecodeError` only."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.schema.declaration import DecodeError, codec
from tests.protocol.messages.messages_under_test import VERSIONS, version_id
from tests.support.arbitrary import instances

few = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=version_id)
@few
@given(data=st.data())
def test_encoding_and_decoding_give_the_same_value(message: type[Any], version: int, data: Any) -> None:
    value = data.draw(instances(message, version))
    encoded = codec(message, version).encode(value)
    assert codec(message, version).decode(encoded) == (value, len(encoded))
    inside = bytearray(b"before" + encoded + b"after")
    assert codec(message, version).decode(inside, 6, 6 + len(encoded)) == (value, 6 + len(encoded))


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=version_id)
@few
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_damage_raises_a_decode_error_and_nothing_else(
    message: type[Any], version: int, data: Any, seed: int
) -> None:
    encoded = codec(message, version).encode(data.draw(instances(message, version)))
    chance = random.Random(seed)
    for damaged in _damaged(encoded, chance):
        try:
            _, end = codec(message, version).decode(damaged)
        except DecodeError:
            continue
        assert end <= len(damaged)
    for length in {0, len(encoded) - 1, *chance.choices(range(len(encoded) + 1), k=6)}:
        if 0 <= length < len(encoded):
            with pytest.raises(DecodeError):
                codec(message, version).decode(encoded[:length])


def _damaged(encoded: bytes, chance: random.Random) -> list[bytes]:
    """Flip bits, and put the bytes that lengths are most sensitive to."""
    found = []
    for number in range(12 if encoded else 0):
        damaged = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            position = chance.randrange(len(damaged))
            if number % 3:
                damaged[position] ^= 1 << chance.randrange(8)
            else:
                damaged[position] = chance.choice((0x00, 0x7F, 0x80, 0xFF))
        found.append(bytes(damaged))
    return found
