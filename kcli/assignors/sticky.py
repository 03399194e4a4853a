"""sticky: balanced, and every member keeps as much of what it had as it can (KIP-54).

The protocol is the eager one: members give everything up before they join, and tell what they had in the user
data of their subscription, all integers big-endian:

    array of {topic string, array of int32}   what the last assignment gave
    int32                                     its generation; older members leave this out (KIP-341)

Arrays begin with an int32 count, a string with an int16 length in bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kcli.assignors.balance import balanced
from kcli.assignors.claims import Claim, settle
from kcli.assignors.members import NO_GENERATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.assignors.members import Assignment, Partition, Subscription


def assign(counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    claims = {member_id: decode_user_data(member.user_data) for member_id, member in members.items()}
    return balanced(counts, members, settle(counts, members, claims))


def user_data(assigned: Iterable[Partition] | None, generation: int) -> bytes | None:
    """Return what a member tells of its last assignment; None before the first."""
    if assigned is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, index in assigned:
        topics.setdefault(topic, []).append(index)
    parts = [struct.pack(">i", len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    return b"".join((*parts, struct.pack(">i", generation)))


def decode_user_data(data: bytes | None) -> Claim:
    """Return what a member had; nothing if it tells nothing that can be read."""
    if not data:
        return Claim((), NO_GENERATION)
    try:
        partitions, end = _decode_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return Claim((), NO_GENERATION)
    has_generation = len(data) >= end + 4
    generation = struct.unpack_from(">i", data, end)[0] if has_generation else NO_GENERATION
    return Claim(partitions, generation)


def _decode_partitions(data: bytes) -> tuple[list[Partition], int]:
    partitions: list[Partition] = []
    (count,) = struct.unpack_from(">i", data, 0)
    position = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, position)
        name = data[position + 2 : position + 2 + size]
        if len(name) != size:
            raise ValueError("cut short")
        topic = name.decode()
        (indexes,) = struct.unpack_from(">i", data, position + 2 + size)
        position += 6 + size
        if not 0 <= indexes <= (len(data) - position) // 4:
            raise ValueError("cut short")
        partitions += ((topic, index) for index in struct.unpack_from(f">{indexes}i", data, position))
        position += 4 * indexes
    return partitions, position
