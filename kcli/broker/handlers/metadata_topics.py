"""EncodedTopics: topics as Metadata responses have them, as bytes.

A cluster of thousands of partitions has few rows that differ in more than their index: the same leader and
epoch, the same replicas in the same places. Such a row is encoded once per response, and only its index is
written anew:

| bytes | of a partition's row, in every version |
|---|---|
| 0-1 | error code |
| 2-5 | partition index |
| 6- | leader, its epoch, replicas, ISR, offline replicas, as the version has them |
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kcli.protocol.schema.declaration import codec
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint

if TYPE_CHECKING:
    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage

FLEXIBLE_FROM = 9

_COUNT = Struct(">i")
_ROW_HEAD = Struct(">hi")
_ROW_HEAD_SIZE = _ROW_HEAD.size

_State = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[bytes, ...]]


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """Return a topic as it stands."""
    return codec(MetadataResponseTopic, version, version >= FLEXIBLE_FROM).encode(topic)


class EncodedTopics:
    """Encodes the topics of one response."""

    __slots__ = ("_image", "_reachable", "_rows", "_version")

    def __init__(self, image: MetadataImage, listener_name: str, version: int) -> None:
        self._image = image
        self._version = version
        self._rows: dict[_State, tuple[int, bytes]] = {}
        self._reachable = frozenset(image.reachable_brokers(listener_name))

    def encode(self, topic: TopicImage, *, is_internal: bool, operations: int) -> bytes:
        """Return a topic with all its partitions."""
        version = self._version
        frame = encode_topic(
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=is_internal,
                partitions=[],
                topic_authorized_operations=operations,
            ),
            version,
        )
        # Behind the partitions: operations from version 8 on, the tag section of flexible versions.
        flexible = version >= FLEXIBLE_FROM
        end = len(frame) - (4 if version >= 8 else 0) - (1 if flexible else 0)
        count = len(topic.partitions)
        if flexible:
            parts = [frame[: end - 1], encode_unsigned_varint(count + 1)]
        else:
            parts = [frame[: end - 4], _COUNT.pack(count)]
        rows, pack, append = self._rows, _ROW_HEAD.pack, parts.append
        for index, partition in enumerate(topic.partitions):
            state = (
                partition.leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                partition.directories,
            )
            row = rows.get(state)
            if row is None:
                row = rows[state] = self._encode_row(partition)
            append(pack(row[0], index))
            append(row[1])
        append(frame[end:])
        return b"".join(parts)

    def _encode_row(self, partition: PartitionRegistration) -> tuple[int, bytes]:
        """Return the error code of a partition's row, and the row behind its index."""
        row = self._row(partition)
        encoded = codec(MetadataResponsePartition, self._version, self._version >= FLEXIBLE_FROM).encode(row)
        return row.error_code, encoded[_ROW_HEAD_SIZE:]

    def _row(self, partition: PartitionRegistration) -> MetadataResponsePartition:
        version, reachable = self._version, self._reachable
        replicas, isr = list(partition.replicas), list(partition.isr)
        error, leader = ErrorCode.NONE, partition.leader
        if version == 0:
            replicas = [node_id for node_id in replicas if node_id in reachable]
            isr = [node_id for node_id in isr if node_id in reachable]
            if (len(replicas), len(isr)) != (len(partition.replicas), len(partition.isr)):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        if leader not in reachable:
            registration = self._image.brokers.get(leader)
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if registration is not None and not registration.fenced and version >= 6:
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = -1
        return MetadataResponsePartition(
            error_code=error,
            partition_index=0,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=self._image.offline_replicas(partition, reachable),
        )
