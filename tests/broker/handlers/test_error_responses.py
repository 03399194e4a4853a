"""The error responses of the APIs that share their form."""

from __future__ import annotations

import pytest

from kcli.broker.handlers.error_responses import ROWS
from kcli.broker.network.apis import APIS
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.protocol.schema.declaration import message_info
from kcli.protocol.schema.fields import fields_of

BY_NAME = {api.name: api for api in APIS}
ERROR = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "why")


@pytest.mark.parametrize("name", ROWS)
def test_the_table_names_lists_of_the_messages(name: str) -> None:
    info = message_info(BY_NAME[name].request)
    lists = ROWS[name]
    if lists is None:
        assert any(field.name == "error_code" for field in fields_of(info.response))
    else:
        assert any(field.name == lists[0] and field.is_array for field in fields_of(BY_NAME[name].request))
        assert any(field.name == lists[1] and field.is_array for field in fields_of(info.response))


def test_rows_take_over_names_and_numbers_only() -> None:
    partition = OffsetForLeaderPartition(partition=3, leader_epoch=7)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="a", partitions=[partition])])
    failed = BY_NAME["OffsetForLeaderEpoch"].failed
    assert failed is not None
    (topic,) = failed(request, ERROR).topics
    (row,) = topic.partitions
    assert (topic.topic, row.partition, row.error_code, row.leader_epoch) == ("a", 3, 56, -1)


def test_numbers_become_rows() -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[4, 5])])
    failed = BY_NAME["ElectLeaders"].failed
    assert failed is not None
    response = failed(request, ERROR)
    (topic,) = response.replica_election_results
    assert response.error_code == 56
    assert [(row.partition_id, row.error_message) for row in topic.partition_result] == [
        (4, "why"),
        (5, "why"),
    ]
