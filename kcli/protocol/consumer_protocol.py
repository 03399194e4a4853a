"""The consumer protocol: what members of a classic group exchange inside JoinGroup and SyncGroup.

    subscription  i16 version, topics, user data (null allowed), from 1 owned partitions, from 2 the
                  generation in which they were owned, from 3 the rack (null allowed)
    assignment    i16 version, topics with their partitions, user data (null allowed)

No version is flexible. A newer version is read as the newest known one, because it may only add fields at the
end (class `ConsumerProtocol`). Some clients send no bytes for an empty assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from kcli.protocol.schema.declaration import (
    DecodeError,
    bytes_,
    codec,
    fresh,
    i32,
    ignorable,
    string,
    struct,
    v,
)

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups that use this protocol."""

HIGHEST_VERSION = 3
NO_GENERATION = -1

T = TypeVar("T")

_VERSION = Struct(">h")

Partitions = Mapping[str, tuple[int, ...]]
"""Partitions by topic."""


class Subscription(NamedTuple):
    """The topics a member subscribes to, and the partitions it owned, in which generation, when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: Partitions = MappingProxyType({})
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class Assignment(NamedTuple):
    """The partitions that a member is assigned."""

    partitions: Partitions = MappingProxyType({})
    user_data: bytes | None = None


@struct
class _TopicPartition:
    topic: string
    partitions: list[i32]


@struct
class _Subscription:
    topics: list[string]
    user_data: bytes_ | None = None
    owned_partitions: Annotated[list[_TopicPartition], v("1+"), ignorable] = fresh(list)
    generation_id: Annotated[i32, v("2+"), ignorable] = NO_GENERATION
    rack_id: Annotated[string | None, v("3+"), ignorable] = None


@struct
class _Assignment:
    assigned_partitions: list[_TopicPartition]
    user_data: bytes_ | None = None


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """Return the bytes of a subscription, topics and partitions sorted, without fields the version lacks.

    Raises `EncodeError` for a value that does not fit.
    """
    value = _Subscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            _TopicPartition(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(subscription.owned_partitions.items())
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + codec(_Subscription, version, flexible=False).encode(value)


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """Return the bytes of an assignment in the given order; raise `EncodeError` if a value does not fit."""
    value = _Assignment(
        assigned_partitions=[
            _TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in assignment.partitions.items()
        ],
        user_data=assignment.user_data,
    )
    return _VERSION.pack(version) + codec(_Assignment, version, flexible=False).encode(value)


def decode_subscription(data: Buffer) -> Subscription:
    """Return the subscription in a member's metadata; raise `DecodeError` if it is malformed."""
    if not len(data):
        return Subscription(())
    value = _decode(_Subscription, data)
    return Subscription(
        topics=tuple(value.topics),
        user_data=value.user_data,
        owned_partitions=_by_topic(value.owned_partitions),
        generation_id=value.generation_id,
        rack_id=value.rack_id or None,
    )


def subscribed_topics(data: Buffer) -> tuple[str, ...]:
    """Return the topics in a member's metadata; raise `DecodeError`.

    It reads the fields of version 0, with which all versions begin, so that what follows does not matter.
    """
    return tuple(_decode(_Subscription, data, 0).topics)


def decode_assignment(data: Buffer) -> Assignment:
    """Return the assignment in a member's assignment bytes; raise `DecodeError` if it is malformed."""
    if not len(data):
        return Assignment()
    value = _decode(_Assignment, data)
    return Assignment(partitions=_by_topic(value.assigned_partitions), user_data=value.user_data)


def subscription_document(data: Buffer) -> dict[str, Any]:
    """Return the subscription in a member's metadata as a JSON document; raise `DecodeError`."""
    return _document(_Subscription, data)


def assignment_document(data: Buffer) -> dict[str, Any]:
    """Return the assignment in a member's assignment bytes as a JSON document; raise `DecodeError`."""
    return _document(_Assignment, data)


def _document(cls: type[Any], data: Buffer) -> dict[str, Any]:
    # Imported on first use: brokers and clients do not need JSON.
    from kcli.protocol.schema.json_document import document

    value = _decode(cls, data)
    (version,) = _VERSION.unpack_from(data)
    if version > HIGHEST_VERSION:
        raise DecodeError(f"unknown version of the consumer protocol: {version}")
    return document(value, version)


def _decode(cls: type[T], data: Buffer, highest: int = HIGHEST_VERSION) -> T:
    if len(data) < _VERSION.size:
        raise DecodeError(f"the consumer protocol's version is cut short: {bytes(data)!r}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"negative version of the consumer protocol: {version}")
    value, _ = codec(cls, min(version, highest), flexible=False).decode(data, _VERSION.size)
    return value


def _by_topic(entries: list[_TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Group partitions by topic; a topic that occurs twice has the partitions of both."""
    found: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        found[entry.topic] = (*found.get(entry.topic, ()), *entry.partitions)
    return found
