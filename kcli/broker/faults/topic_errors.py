"""An error that strikes some of a request's topics: they are refused, and the others are served.

Most requests about topics are answered topic by topic, in one list, so that is what clients expect. What has
no such list in its request or its answer is refused as a whole.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from kcli.broker.faults.error_answers import error_answer
from kcli.broker.handlers.produce_wire import ProduceData
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.api import Api
    from kcli.broker.node.broker import Broker
    from kcli.protocol.messages.fetch import FetchResponse

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
"""By API, the lists of a request that name topics, and the list of its answer with a row for each."""


class TopicErrors:
    """The request of an API, whose topics that `concerns` picks are to be refused with `code`."""

    def __init__(
        self, api: Api, version: int, *, request: object, concerns: Callable[[str], bool], broker: Broker
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
        """True if some of the topics are refused and others are not."""
        struck = [self._is_struck(row) for rows in self._topics.values() for row in rows]
        # Nobody hears of an error where nothing is acknowledged, but by the end of the connection.
        return any(struck) and not all(struck) and getattr(self._request, "acks", None) != 0

    def request_of_others(self) -> Any:  # noqa: ANN401 - of the same class as the request
        """Return the request without the topics that are refused."""
        others = self._with(is_struck=False)
        return _as_message(others) if isinstance(others, ProduceData) else others

    def answer(self, served: Any, code: ErrorCode, *, why: str) -> Any:  # noqa: ANN401 - the API's response
        """Return what the others got, `served`, with rows for the topics that are refused."""
        refused = error_answer(
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

    def _is_struck(self, row: Any) -> bool:  # noqa: ANN401 - a topic of a request or of an answer
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


def spare_others(response: FetchResponse, concerns: Callable[[str], bool], broker: Broker) -> None:
    """Let a fetch that is refused say nothing of topics that `concerns` does not pick.

    A fetch with an error is answered at once in any case, whatever else it asks for.
    """
    for row in response.responses:
        topic = broker.image.topics_by_id.get(row.topic_id)
        if not concerns(row.topic or ("" if topic is None else topic.name)):
            for partition in row.partitions:
                partition.error_code = ErrorCode.NONE
