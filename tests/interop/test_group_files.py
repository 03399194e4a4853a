"""Groups on the disk: what kcli writes of them Apache Kafka reads, and the other way round."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.topics import GROUP_METADATA_TOPIC, partition_for
from tests.support.apache_kafka import ApacheKafka
from tests.support.kcli_broker import KcliBroker
from tests.support.raw_client import RawClient
from tests.support.raw_member import NOT_YET, RawMember
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop

TOPIC = "t"
PARTITIONS = 3
SUBSCRIPTION = encode_subscription(Subscription((TOPIC,)))
ASSIGNMENT = encode_assignment(Assignment({TOPIC: tuple(range(PARTITIONS))}))
OFFSETS = {0: 10, 1: 20, 2: 30}
LONG_SESSION_MS = 300_000


class Groups:
    """A classic group and one of the consumer protocol, each with a member that has committed."""

    def __init__(self, client: RawClient) -> None:
        create_topic(client)
        self.classic = RawMember(client, "classic", metadata=SUBSCRIPTION, session_timeout_ms=LONG_SESSION_MS)
        self.classic.join(ASSIGNMENT)
        assert set(self.classic.commit(TOPIC, OFFSETS, "where we are").values()) == {0}
        self.epoch, self.owned = 0, list[TopicPartitions]()
        # Apache Kafka takes a second between two assignments.
        eventually(lambda: self._is_assigned(client), "the member of the consumer protocol has partitions")
        assert len(self.owned[0].partitions) == PARTITIONS

    def _is_assigned(self, client: RawClient) -> bool:
        """Whether a heartbeat that told of partitions brought the same: they are known to be its own."""
        told = self.owned
        response = heartbeat(client, self.epoch, told)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = response.assignment.topic_partitions
        return bool(told) and self.owned == told

    @staticmethod
    def described(client: RawClient) -> tuple[Any, Any]:
        """What a broker knows of both, as text."""

        def ask() -> tuple[Any, Any]:
            (classic,) = client.ask(DescribeGroupsRequest(groups=["classic"]), 5).groups
            (consumer,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["consumer"]), 0).groups
            return classic, consumer

        classic, consumer = first(
            ask,
            lambda groups: not {each.error_code for each in groups} & NOT_YET,
            "the coordinators are ready",
        )
        return repr(classic), repr(consumer)


def create_topic(client: RawClient) -> None:
    """Have the topic created, as brokers do when they are asked about it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    eventually(lambda: client.ask(request, 4).topics[0].error_code == 0, "the topic is there")


def heartbeat(client: RawClient, epoch: int, owned: list[TopicPartitions] | None = None) -> Any:
    """Send a heartbeat of the member of the consumer protocol until it is answered."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="consumer",
        member_id="member",
        member_epoch=epoch,
        instance_id="instance",
        rebalance_timeout_ms=LONG_SESSION_MS,
        subscribed_topic_names=[TOPIC],
        topic_partitions=owned or [],
    )
    response = first(
        lambda: client.ask(request, 0),
        lambda response: response.error_code not in NOT_YET,
        "the coordinator is ready",
    )
    assert response.error_code == 0, response
    return response


def kcli(directory: Path, *arguments: str) -> KcliBroker:
    return KcliBroker(directory, settings={"num.partitions": str(PARTITIONS)}, arguments=arguments)


def test_the_dump_tool_reads_what_kcli_writes(tmp_path: Path, kafka_tool: KafkaTools) -> None:
    broker = kcli(tmp_path).start()
    with RawClient(broker.bootstrap) as client:
        groups = Groups(client)
    assert broker.stop() == 0
    records: list[dict[str, Any]] = []
    for name in ("classic", "consumer"):
        directory = broker.node_directory / f"{GROUP_METADATA_TOPIC}-{partition_for(name, 50)}"
        logs = [path for path in directory.glob("*.log") if path.stat().st_size]
        result = kafka_tool("kafka-dump-log", "--offsets-decoder", "--files", ",".join(map(str, logs)))
        assert result.code == 0, result
        for line in result.lines:
            _, found, payload = line.partition(" key: ")
            if found:
                key, _, value = payload.partition(" payload: ")
                records.append({"key": json.loads(key), "value": json.loads(value)})
    kinds = [(record["key"]["type"], record["value"]["version"]) for record in records]
    assert kinds.count(("1", "4")) + kinds.count(("1", "3")) == PARTITIONS, kinds
    (group,) = (record for record in records if record["key"]["type"] == "2")
    assert group["key"]["data"] == {"group": "classic"}
    assert group["value"]["data"]["generation"] == groups.classic.generation_id
    assert group["value"]["data"]["members"][0]["memberId"] == groups.classic.member_id
    assert {str(number) for number in (3, 5, 6, 7, 8)} <= {record["key"]["type"] for record in records}


def test_apache_kafka_goes_on_with_the_groups_of_kcli(tmp_path: Path, kafka_tool: KafkaTools) -> None:
    broker = kcli(tmp_path).start()
    with RawClient(broker.bootstrap) as client:
        groups = Groups(client)
        before = groups.described(client)
    assert broker.stop() == 0
    apache = ApacheKafka(tmp_path, kafka_tool, data=broker.node_directory)
    apache.start()
    try:
        with RawClient(apache.bootstrap) as client:
            assert groups.described(client) == before
            groups.classic.client = client
            assert groups.classic.committed(TOPIC, PARTITIONS) == list(OFFSETS.values())
            assert groups.classic.heartbeat() == 0
            assert groups.classic.commit(TOPIC, {0: 11}) == {0: 0}
            assert heartbeat(client, groups.epoch, groups.owned).member_epoch == groups.epoch
    finally:
        apache.stop()
    broker.start()
    try:
        with RawClient(broker.bootstrap) as client:
            groups.classic.client = client
            assert groups.classic.committed(TOPIC, PARTITIONS) == [11, 20, 30]
            assert groups.classic.heartbeat() == 0
            assert groups.described(client)[0] == before[0]
    finally:
        broker.close()


def test_kcli_goes_on_with_the_groups_of_apache_kafka(
    tmp_path: Path, kafka_tool: KafkaTools, new_kcli_broker: Callable[..., KcliBroker]
) -> None:
    (tmp_path / "apache").mkdir()
    apache = ApacheKafka(tmp_path / "apache", kafka_tool, settings={"num.partitions": str(PARTITIONS)})
    apache.start()
    try:
        with RawClient(apache.bootstrap) as client:
            RawMember(client, "classic").find_coordinator()
            groups = Groups(client)
            before = groups.described(client)
    finally:
        apache.stop()
    broker = new_kcli_broker(arguments=["--adopt"])
    for path in apache.data.iterdir():
        if path.name.startswith((GROUP_METADATA_TOPIC, f"{TOPIC}-")):
            shutil.copytree(path, broker.node_directory / path.name)
    broker.start()
    with RawClient(broker.bootstrap) as client:
        assert groups.described(client) == before
        groups.classic.client = client
        assert groups.classic.committed(TOPIC, PARTITIONS) == list(OFFSETS.values())
        assert groups.classic.heartbeat() == 0
        assert heartbeat(client, groups.epoch, groups.owned).member_epoch == groups.epoch
    assert "passed over" not in broker.messages()
