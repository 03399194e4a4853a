"""Error responses of any API to a request that meets a fault, and the topics that a request names.

The base is the error response of the API, which has a row for everything that was asked for. It is made for
errors that the handler raises; this module corrects it for an error that a user has chosen. If a fault
concerns some topics of a request and its API answers topic by topic in one list, only those are refused and
the others are served; any other request is refused as a whole. Topics are found by the names of the fields.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from kcli.broker.handlers.error_responses import blank
from kcli.broker.handlers.produce.wire import ProduceData
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.schema.declaration import response_class
from kcli.protocol.schema.fields import fields_of
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kcli.broker.network.apis import Api
    from kcli.broker.node_context import NodeContext
    from kcli.protocol.messages.metadata import MetadataResponse


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def error_response(api: Api, version: int, *, request: object, code: ErrorCode, why: str) -> Any | None:  # noqa: ANN401 - the response
    """Return the response with `code` for everything in a request, None if the API has none."""
    error = KafkaError(code, why)
    response = blank(response_class(api.key)) if api.failed is None else api.failed(request, error)
    if response is None:
        return None
    if isinstance(response, FetchResponse) and response.responses and code not in _SESSION_ERRORS:
        # With an error for the whole response, clients look at no partition.
        response.error_code = ErrorCode.NONE
    holders = list(_holders(response, version))
    if all(holder.error_code != code for holder in holders):
        # The handler would not answer with this error, but the user has chosen it.
        for holder in holders:
            holder.error_code = code
    return response


def with_topic_errors(
    response: MetadataResponse, code: ErrorCode, concerns: Callable[[str], bool]
) -> MetadataResponse:
    """Put an error on the topics of a metadata response that `concerns` picks.

    Clients do not accept a response without brokers, so the rest of it stays true.
    """
    for topic in response.topics:
        if concerns(topic.name or ""):
            topic.error_code = code
            topic.partitions = []
    return response


def _holders(value: Any, version: int) -> Iterator[Any]:  # noqa: ANN401 - any struct
    """Yield every struct in a response with an error code; reset the fields that the version lacks."""
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if version not in field.versions:
            setattr(value, field.name, field.make_default())
        elif field.name == "error_code":
            yield value
        elif field.struct is not None and content is not None:
            for each in content if field.is_array else (content,):
                yield from _holders(each, version)


_LISTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "Produce": (("topics",), "responses"),
    "ListOffsets": (("topics",), "topics"),
    "OffsetCommit": (("topics",), "topics"),
    "CreateTopics": (("topics",), "topics"),
    "DeleteTopics": (("topic_names", "topics"), "responses"),
    "DeleteRecords": (("topics",), "topics"),
    "OffsetForLeaderEpoch": (("topics",), "topics"),
    "CreatePartitions": (("topics",), "results"),
    "ElectLeaders": (("topic_partitions",), "replica_election_results"),
    "AlterPartitionReassignments": (("topics",), "responses"),
    "OffsetDelete": (("topics",), "topics"),
    "DescribeProducers": (("topics",), "topics"),
    "DescribeTopicPartitions": (("topics",), "topics"),
}
"""By API, the lists of topics in a request, and the list in the response with a row for each."""


class TopicErrors:
    """A request of which the topics that `concerns` picks are refused."""

    def __init__(
        self, api: Api, version: int, *, request: object, concerns: Callable[[str], bool], broker: NodeContext
    ) -> None:
        self._api = api
        self._version = version
        self._request = request
        self._concerns = concerns
        self._broker = broker
        names, self._rows = _LISTS.get(api.name, ((), ""))
        self._topics = {name: rows for name in names if (rows := getattr(request, name, None))}

    @property
    def strike_some(self) -> bool:
        """True if some topics are refused and others are not."""
        struck = [self._is_struck(row) for rows in self._topics.values() for row in rows]
        # With acks=0 only the end of the connection tells the client of an error.
        return any(struck) and not all(struck) and getattr(self._request, "acks", None) != 0

    def request_of_others(self) -> Any:  # noqa: ANN401 - of the same class as the request
        """Return the request without the refused topics."""
        others = self._with(is_struck=False)
        return _as_message(others) if isinstance(others, ProduceData) else others

    def response(self, served: Any, code: ErrorCode, *, why: str) -> Any:  # noqa: ANN401 - the API's response
        """Return the response for the other topics, `served`, with rows for the refused ones."""
        refused = error_response(
            self._api, self._version, request=self._with(is_struck=True), code=code, why=why
        )
        kept = [row for row in getattr(served, self._rows) if not self._is_struck(row)]
        setattr(served, self._rows, [*kept, *getattr(refused, self._rows)])
        return served

    def _with(self, *, is_struck: bool) -> object:
        request = copy(self._request)
        for name, rows in self._topics.items():
            setattr(request, name, [row for row in rows if self._is_struck(row) is is_struck])
        return request

    def _is_struck(self, row: Any) -> bool:  # noqa: ANN401 - a topic of a request or a response
        match row:
            case str(name):
                topic_id = b""
            case (name, topic_id, _):
                pass
            case _:
                name = getattr(row, "name", None) or getattr(row, "topic", None)
                topic_id = getattr(row, "topic_id", b"")
        if not name:
            topic = self._broker.image.topics_by_id.get(topic_id)
            name = "" if topic is None else topic.name
        return self._concerns(name)


def _as_message(data: ProduceData) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=data.transactional_id,
        acks=data.acks,
        timeout_ms=data.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name or "",
                topic_id=topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in partitions
                ],
            )
            for name, topic_id, partitions in data.topics
        ],
    )


def clear_other_topics(response: FetchResponse, concerns: Callable[[str], bool], broker: NodeContext) -> None:
    """Remove the error from the topics of a fetch response that `concerns` does not pick.

    A fetch with an error is answered at once, whatever else it asks for.
    """
    for row in response.responses:
        topic = broker.image.topics_by_id.get(row.topic_id)
        if not concerns(row.topic or ("" if topic is None else topic.name)):
            for partition in row.partitions:
                partition.error_code = ErrorCode.NONE


_ANYWHERE = frozenset({"topic", "topic_name"})
_NAMES = _ANYWHERE | {"name"}
"""The fields with the name of a topic in the rows of a list of topics …"""
_TOPIC_LISTS = frozenset({"topic_names", "subscribed_topic_names"})
"""… and the lists of names."""


def topics_of(request: object, broker: NodeContext) -> set[str]:
    """Return the names of the topics in a request, also of those given by id if the node knows them."""
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
        elif field.is_array and (field.name in _TOPIC_LISTS or field.name == "topics"):
            yield from content
        elif field.name == "topic_id" or (not field.is_array and field.name in names):
            yield content


def complete_fetch(request: object, broker: NodeContext) -> object:
    """Return a fetch with the partitions of its session, which it need not repeat (KIP-227)."""
    if not isinstance(request, FetchRequest) or request.session_epoch <= 0:
        return request
    topics: dict[tuple[bytes, str], dict[int, FetchPartition]] = {}
    for known in broker.fetch_sessions.partitions(request.session_id):
        topics.setdefault((known.topic_id, known.topic or ""), {})[known.index] = FetchPartition(
            partition=known.index, fetch_offset=known.fetch_offset, partition_max_bytes=known.max_bytes
        )
    # A request by id has no names; the session knows them.
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
