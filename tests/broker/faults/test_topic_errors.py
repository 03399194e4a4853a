"""An error for some topics of a request: these are refused, the others are served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.uuids import ZERO_UUID
from tests.broker.faults.test_request_faults import bench, new_topic
from tests.broker.records import batch

if TYPE_CHECKING:
    from pathlib import Path

ALTERED = ErrorCode.POLICY_VIOLATION
NONE = ErrorCode.NONE


def codes(value: Any) -> list[int]:
    """Return the errors of a row of a response: its own, or those of its partitions."""
    for name in ("partition_responses", "partitions", "partition_result"):
        if hasattr(value, name):
            return [each.error_code for each in getattr(value, name)]
    return [value.error_code]


def by_topic(rows: list[Any]) -> dict[str, list[int]]:
    return {getattr(row, "name", None) or row.topic: codes(row) for row in rows}


def produce(ids: dict[str, bytes] | None = None, *, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="" if ids else name,
                topic_id=ids[name] if ids else ZERO_UUID,
                partition_data=[PartitionProduceData(index=0, records=batch(b"value"))],
            )
            for name in ("t", "u")
        ],
    )


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("version", [3, 8, 12, 13])
async def test_records_of_other_topics_are_written(tmp_path: Path, version: int, after: bool) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="Produce", topic="t", code="NOT_LEADER_OR_FOLLOWER", after=after)
        topics = it.cluster.publisher.latest.topics
        ids = {name: topics[name].topic_id for name in ("t", "u")}
        answer = await client.ask(produce(ids if version >= 13 else None), version)
        names = {topic_id: name for name, topic_id in ids.items()}
        assert {names.get(row.topic_id, row.name): codes(row) for row in answer.responses} == {
            "t": [ErrorCode.NOT_LEADER_OR_FOLLOWER],
            "u": [NONE],
        }
        assert (it.log_end("t"), it.log_end("u")) == (int(after), 1)


async def test_without_acknowledgements_there_is_no_answer_to_part(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", api="Produce", topic="t", code="NOT_LEADER_OR_FOLLOWER")
        await client.send(produce(acks=0), 8)
        assert await client.is_closed()
        assert it.log_end("u") == 0


@pytest.mark.parametrize(
    ("asked", "version", "rows"),
    [
        (
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                    )
                    for name in ("t", "u")
                ],
            ),
            5,
            "topics",
        ),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("t", "u")],
                timeout_ms=1000,
                validate_only=False,
            ),
            2,
            "results",
        ),
        (
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=name, partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
                    )
                    for name in ("t", "u")
                ]
            ),
            0,
            "responses",
        ),
        (DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=1000), 5, "responses"),
        (
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in ("t", "u")],
                timeout_ms=1000,
            ),
            6,
            "responses",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_each_topic_has_its_own_answer(tmp_path: Path, asked: object, version: int, rows: str) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", topic="t", code=ALTERED.name)
        answer = await client.ask(asked, version)
        assert by_topic(getattr(answer, rows)) == {"t": [ALTERED], "u": [NONE]}
        assert getattr(answer, "error_code", NONE) == NONE


async def test_a_topic_that_is_refused_is_not_made(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", topic="no*", code=ALTERED.name)
        topics = [new_topic(name) for name in ("no-1", "yes", "no-2")]
        answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
        assert by_topic(answer.topics) == {"no-1": [ALTERED], "yes": [NONE], "no-2": [ALTERED]}
        assert sorted(it.cluster.publisher.latest.topics) == ["t", "u", "yes"]


async def test_a_leader_that_is_not_elected_keeps_nobody_else_from_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", topic="t", code=ALTERED.name)
        wanted = [TopicPartitions(topic=name, partitions=[0]) for name in ("t", "u")]
        answer = await client.ask(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=1000), 2)
        assert by_topic(answer.replica_election_results) == {
            "t": [ALTERED],
            "u": [ErrorCode.ELECTION_NOT_NEEDED],
        }
        assert answer.error_code == NONE


async def test_a_fetch_is_answered_at_once_and_says_nothing_of_other_topics(tmp_path: Path) -> None:
    async with bench(tmp_path) as it, it.client() as client:
        it.faults.add("error", topic="t", code="NOT_LEADER_OR_FOLLOWER")
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic=name, partitions=[row]) for name in ("t", "u")]
        answer = await client.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics), 4)
        assert by_topic(answer.responses) == {"t": [ErrorCode.NOT_LEADER_OR_FOLLOWER], "u": [NONE]}
