"""Metadata: brokers, topics, and who leads their partitions (class `KRaftMetadataCache`).

* Version 0 reads an empty list as all topics; from version 1 on null means all, and an empty list no topic.
* From version 12 on topics can be given by id; an unknown id is UNKNOWN_TOPIC_ID. If a request has an id,
  only the topics with ids are answered.
* Addresses are those of the request's listener; a leader without it counts as absent.
* Version 0 leaves out replicas that cannot be reached, with REPLICA_NOT_AVAILABLE; later versions keep them,
  and list them as offline from version 5 on.
* A missing topic is created if the broker and (from version 4) the request allow it; the response has it,
  because its metadata is there when the controller returns. Internal topics are not created here.

An encoded topic is cached by version, so a response of a thousand topics is not built twice. A request that
names more than `TOPICS_PER_TURN` topics lets others run in between.

In a cluster of thousands of partitions few rows differ in more than their index: they have the same leader,
epoch and replicas in the same directories. `EncodedTopics` encodes such a row once per response and writes
only the index anew:

| bytes | of the row of a partition, in every version |
|---|---|
| 0-1 | error code |
| 2-5 | partition index |
| 6- | leader, its epoch, replicas, ISR, offline replicas, as the version has them |
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from trio.lowlevel import checkpoint

from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.network.authorization import (
    NOT_ASKED_FOR,
    authorize_topics,
    authorized_operations,
    cluster_operations,
)
from kcli.broker.network.request_context import NONE_DENIED
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.schema.declaration import codec
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint
from kcli.protocol.topics import INTERNAL_TOPICS, METADATA_TOPIC, check_topic_name
from kcli.protocol.uuids import ZERO_UUID
from kcli.security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


FLEXIBLE_FROM = 9

_COUNT = Struct(">i")
_ROW_HEAD = Struct(">hi")
_ROW_HEAD_SIZE = _ROW_HEAD.size

_State = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[bytes, ...]]


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
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
        """Return the error code of the row of a partition, and the row behind its index."""
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


TOPICS_PER_TURN = 500
"""The topics that are answered before others run: about a millisecond."""


def metadata(request: MetadataRequest, context: RequestContext) -> bytes | Coroutine[None, None, bytes]:
    """Return the brokers and the topics asked for."""
    version = context.api_version
    if request.topics is not None and len(request.topics) > TOPICS_PER_TURN:
        return _metadata_in_turns(request, context)
    if request.topics is None or (version == 0 and not request.topics):
        encoder = _encoder(context)
        known = context.node.image.topics
        denied = authorize_topics(context, Operation.DESCRIBE, known)
        topics = [
            _known(context, topic, request, encoder) for topic in known.values() if topic.name not in denied
        ]
    else:
        _check_ids(request.topics, version)
        ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
        if ids:
            encoder = _encoder(context)
            topics = [_by_id(context, topic_id, request, encoder) for topic_id in ids]
        else:
            names = list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))
            denied = authorize_topics(context, Operation.DESCRIBE, names)
            refused = _create_missing(names, request, context, denied)
            encoder = _encoder(context)
            topics = [_by_name(context, name, request, refused, encoder) for name in names]
    return _body(topics, request, context)


async def _metadata_in_turns(request: MetadataRequest, context: RequestContext) -> bytes:
    """Return the body; let others run between topics, so that each turn sees the metadata of its time."""
    wanted = request.topics or ()
    ids: dict[bytes, None] = {}
    names: dict[str, None] = {}
    for first in range(0, len(wanted), TOPICS_PER_TURN):
        part = wanted[first : first + TOPICS_PER_TURN]
        _check_ids(part, context.api_version)
        ids.update(dict.fromkeys(topic.topic_id for topic in part if topic.topic_id != ZERO_UUID))
        names.update(dict.fromkeys(topic.name for topic in part if topic.name is not None))
        await checkpoint()
    denied = NONE_DENIED if ids else authorize_topics(context, Operation.DESCRIBE, names)
    refused = {} if ids else _create_missing([*names], request, context, denied)
    listed = [*(ids or names)]
    topics: list[bytes] = []
    for first in range(0, len(listed), TOPICS_PER_TURN):
        await checkpoint()
        encoder = _encoder(context)
        for key in listed[first : first + TOPICS_PER_TURN]:
            if isinstance(key, str):
                topics.append(_by_name(context, key, request, refused, encoder))
            else:
                topics.append(_by_id(context, key, request, encoder))
    return _body(topics, request, context)


def failed_metadata(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                error_code=error.code, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in request.topics or ()
        ],
        error_code=error.code,
    )


def _encoder(context: RequestContext) -> EncodedTopics:
    return EncodedTopics(context.node.image, context.listener_name, context.api_version)


def _check_ids(topics: Sequence[MetadataRequestTopic], version: int) -> None:
    for topic in topics:
        if version < 12 and topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {version} needs topic names")
        if version < 12 and topic.topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {version} cannot ask by topic id")


def _create_missing(
    names: list[str], request: MetadataRequest, context: RequestContext, denied: frozenset[str]
) -> dict[str, KafkaError]:
    """Create missing topics, if that is allowed; return the errors of denied topics and failed creations."""
    refused = dict.fromkeys(denied, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    broker = context.node
    config = broker.config
    if not request.allow_auto_topic_creation or not config.auto_create_topics_enable:
        return refused
    missing = [
        name
        for name in names
        if not (name in denied or name in broker.image.topics or name in INTERNAL_TOPICS)
        and name != METADATA_TOPIC
        and _is_legal(name)
    ]
    if missing:
        forbidden = authorize_topics(context, Operation.CREATE, missing, cluster=Operation.CREATE)
        refused.update(dict.fromkeys(forbidden, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        missing = [name for name in missing if name not in forbidden]
    if not missing:
        return refused
    defaults = TopicDefaults(config.num_partitions, config.default_replication_factor, config.topic_defaults)
    created = broker.controller.create_topics([NewTopic(name) for name in missing], defaults=defaults)
    refused.update(
        (name, outcome)
        for name, outcome in zip(missing, created, strict=True)
        if isinstance(outcome, KafkaError)
    )
    return refused


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _by_id(
    context: RequestContext, topic_id: bytes, request: MetadataRequest, encoder: EncodedTopics
) -> bytes:
    topic = context.node.image.topics_by_id.get(topic_id)
    error = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is not None:
        if not authorize_topics(context, Operation.DESCRIBE, (topic.name,)):
            return _known(context, topic, request, encoder)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return encode_topic(
        MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id, partitions=[]),
        context.api_version,
    )


def _by_name(
    context: RequestContext,
    name: str,
    request: MetadataRequest,
    refused: dict[str, KafkaError],
    encoder: EncodedTopics,
) -> bytes:
    topic = context.node.image.topics.get(name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name in refused:
        error = refused[name].code
    elif topic is not None:
        return _known(context, topic, request, encoder)
    elif not _is_legal(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    row = MetadataResponseTopic(error_code=error, name=name, partitions=[])
    if error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        row.is_internal = name in INTERNAL_TOPICS
        if request.include_topic_authorized_operations:
            row.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, name)
    return encode_topic(row, context.api_version)


def _known(
    context: RequestContext, topic: TopicImage, request: MetadataRequest, encoder: EncodedTopics
) -> bytes:
    """Return an existing topic, encoded now or before."""
    cache = context.node.replica_manager.encoded_metadata
    operations = NOT_ASKED_FOR
    if request.include_topic_authorized_operations:
        operations = authorized_operations(context, ResourceType.TOPIC, topic.name)
    key = ("metadata", topic.topic_id, context.api_version, context.listener_name, operations)
    encoded = cache.get(key, topic)
    if encoded is None:
        encoded = encoder.encode(topic, is_internal=topic.name in INTERNAL_TOPICS, operations=operations)
        cache.put(key, topic, encoded)
    return encoded


def known_controller(context: RequestContext, reachable: Collection[int]) -> int:
    """Return the controller this node knows, else the first node: every node forwards to the controller."""
    controller_id = context.node.known_controller_id
    return controller_id if controller_id in reachable else next(iter(reachable), -1)


def _body(topics: list[bytes], request: MetadataRequest, context: RequestContext) -> bytes:
    """Return the response body: the generated encoding, with encoded topics put in their place."""
    version = context.api_version
    image = context.node.image
    reachable = image.reachable_brokers(context.listener_name)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for node_id, (broker, endpoint) in reachable.items()
        ],
        cluster_id=context.node.cluster_id,
        controller_id=known_controller(context, reachable),
        topics=[],
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )
    body = codec(MetadataResponse, version).encode(response)
    if version < FLEXIBLE_FROM:
        end = len(body) - (4 if version == 8 else 0)
        return b"".join([body[: end - 4], _COUNT.pack(len(topics)), *topics, body[end:]])
    # Behind the topics: operations up to version 10, the error from 13, the tag section.
    end = len(body) - 1 - (4 if version <= 10 else 0) - (2 if version >= 13 else 0)
    return b"".join([body[: end - 1], encode_unsigned_varint(len(topics) + 1), *topics, body[end:]])
