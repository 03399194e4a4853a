"""Any API can be made to answer with any error, and the topics of any request are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.faults.error_responses import error_response, topics_of
from kcli.broker.metadata.metadata_image import MetadataImage
from kcli.broker.network.apis import APIS, Api
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.protocol.schema.declaration import codec, response_class
from kcli.protocol.schema.fields import fields_of
from kcli.protocol.uuids import ZERO_UUID
from tests.support.arbitrary import instances
from tests.support.metadata import broker, image_of, topic_id, with_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.node.broker import Broker

VERSIONS = [(api, version) for api in APIS for version in (api.min_version, api.max_version)]
IMAGE = with_topic(image_of(broker(1)), "orders", 1, [1])


class _Node:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image


NODE = cast("Broker", _Node(IMAGE))


def error_codes(value: Any, version: int) -> Iterator[int]:
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        content = getattr(value, field.name)
        if field.name == "error_code":
            yield content
        elif field.struct is not None and content is not None:
            for each in content if field.is_array else (content,):
                yield from error_codes(each, version)


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
@settings(max_examples=20)
@given(data=st.data(), code=st.sampled_from([each for each in ErrorCode if each is not ErrorCode.NONE]))
def test_an_answer_that_says_the_error_fits_every_version(
    api: Api, version: int, data: st.DataObject, code: ErrorCode
) -> None:
    asked = data.draw(instances(api.request, version))
    frame = codec(api.request, version).encode(asked)
    request = api.decoder(version)(memoryview(bytearray(frame)), 0, len(frame))[0]
    answer = error_response(api, version, request=request, code=code, why="as ordered")
    if answer is None:
        assert api.name == "Produce"
        assert request.acks == 0
        return
    codes = list(error_codes(answer, version))
    assert code in codes or not codes
    encoding = codec(response_class(api.key), version)
    assert encoding.decode(encoding.encode(answer))[0]


@pytest.mark.parametrize(
    "request_",
    [
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="orders", partitions=[])]),
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id(1), partitions=[])]),
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[],
            forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[])],
        ),
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[])]),
        MetadataRequest(topics=[MetadataRequestTopic(name="orders")]),
        MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id(1))]),
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[])]),
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])],
                )
            ]
        ),
        CreateTopicsRequest(
            timeout_ms=1,
            topics=[
                CreatableTopic(
                    name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
            ],
        ),
        DeleteTopicsRequest(timeout_ms=1, topic_names=["orders"]),
        DeleteTopicsRequest(timeout_ms=1, topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)]),
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0])]),
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=[])]),
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_the_topics_of_a_request_are_found_by_name_and_by_id(request_: object) -> None:
    assert topics_of(request_, NODE) == {"orders"}


@pytest.mark.parametrize(
    "request_",
    [
        MetadataRequest(topics=None),
        FindCoordinatorRequest(key="orders"),
        JoinGroupRequest(
            group_id="orders",
            session_timeout_ms=1,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="orders", metadata=b"")],
        ),
        MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id(9))]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_is_no_topic_is_not_taken_for_one(request_: object) -> None:
    assert topics_of(request_, NODE) == set()
