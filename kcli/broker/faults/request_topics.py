"""The topics that a request names, whatever its API: found by the names of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.handlers.produce_wire import ProduceData
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.schema.fields import fields_of
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.node.broker import Broker

_ANYWHERE = frozenset({"topic", "topic_name"})
_NAMES = _ANYWHERE | {"name"}
"""What the name of a topic is called in the rows of a list of topics …"""
_LISTS = frozenset({"topic_names", "subscribed_topic_names"})
"""… and lists of nothing but names."""


def topics_of(request: object, broker: Broker) -> set[str]:
    """Return the names of the topics in a request; ids that the node knows count as their names."""
    if isinstance(request, ProduceData):
        found: Iterator[str | bytes | None] = (name or topic_id for name, topic_id, _ in request.topics)
    else:
        found = _walk(request, is_topic=False)
    names = set()
    for name in found:
        if isinstance(name, bytes):
            topic = broker.image.topics_by_id.get(name)
            name = None if topic is None else topic.name
        if name:
            names.add(name)
    return names


def _walk(value: Any, *, is_topic: bool) -> Iterator[str | bytes | None]:  # noqa: ANN401 - any struct
    names = _NAMES if is_topic else _ANYWHERE
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if content is None or content == ZERO_UUID:
            continue
        if field.struct is not None:
            is_topics = "topic" in field.name
            for each in content if field.is_array else (content,):
                yield from _walk(each, is_topic=is_topics)
        elif field.is_array and (field.name in _LISTS or field.name == "topics"):
            yield from content
        elif field.name == "topic_id" or (not field.is_array and field.name in names):
            yield content


def complete_fetch(request: object, broker: Broker) -> object:
    """Return a fetch that also names the partitions of its session, which it need not repeat (KIP-227)."""
    if not isinstance(request, FetchRequest) or request.session_epoch <= 0:
        return request
    topics: dict[tuple[bytes, str], dict[int, FetchPartition]] = {}
    for known in broker.fetch_sessions.partitions(request.session_id):
        topics.setdefault((known.topic_id, known.topic or ""), {})[known.index] = FetchPartition(
            partition=known.index, fetch_offset=known.fetch_offset, partition_max_bytes=known.max_bytes
        )
    # By id, the name is the broker's own knowledge.
    names = {topic_id: name for topic_id, name in topics if topic_id != ZERO_UUID}
    for topic in request.topics:
        rows = topics.setdefault((topic.topic_id, names.get(topic.topic_id, topic.topic)), {})
        rows.update((row.partition, row) for row in topic.partitions)
    for left in request.forgotten_topics_data:
        rows = topics.get((left.topic_id, names.get(left.topic_id, left.topic)), {})
        for index in left.partitions:
            rows.pop(index, None)
    complete = [
        FetchTopic(topic=name, topic_id=topic_id, partitions=list(rows.values()))
        for (topic_id, name), rows in topics.items()
        if rows
    ]
    return FetchRequest(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=complete,
    )
