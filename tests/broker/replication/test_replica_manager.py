"""ReplicaManager and Partition: following the metadata, roles, configurations, failed directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.metadata.metadata_image import PartitionRegistration
from kcli.broker.replication.fetch_data import FetchPartition
from kcli.broker.replication.replica_manager import FetchParams
from kcli.protocol.configs import ConfigOperation
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.uuids import ZERO_UUID
from kcli.storage.log.log_read import Isolation
from tests.broker.records import batch
from tests.broker.single_node import NODE_ID, START_MS, Node

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.replication.partition import Partition


def registration(**changes: Any) -> PartitionRegistration:
    values = {
        "replicas": (NODE_ID, 2),
        "isr": (NODE_ID, 2),
        "leader": NODE_ID,
        "leader_epoch": 0,
        "partition_epoch": 1,
        **changes,
    }
    return PartitionRegistration(**values)


def append(partition: Partition, *values: bytes, acks: int = 1) -> int:
    records = bytearray(batch(*values))
    return partition.append(records, acks=acks, now_ms=START_MS, max_decompressed=1 << 20).first_offset


def code_of(call: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments)
    return caught.value.code


# --- following the metadata ----------------------------------------------------------------------


def test_a_topic_brings_its_logs_and_takes_them_away(node: Node, tmp_path: Path) -> None:
    topic = node.create_topic("t", partitions=2)
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("t-")) == ["t-0", "t-1"]
    partition = node.replica_manager.partition("t", 1)
    assert (partition.is_leader, partition.leader_epoch, partition.topic_id) == (True, 0, topic.topic_id)
    node.controller.delete_topics([topic.topic_id])
    assert code_of(node.replica_manager.partition, "t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.replica_manager.by_name_bytes == {}
    assert {name.rpartition("-")[2] for name in os.listdir(tmp_path) if name.startswith("t-")} == {"delete"}
    again = node.create_topic("t")
    assert node.replica_manager.partition("t", 0).topic_id == again.topic_id != topic.topic_id


def test_partitions_that_are_elsewhere_have_their_own_error(node: Node) -> None:
    node.create_topic("t")
    manager = node.replica_manager
    del manager.partitions["t", 0]
    assert code_of(manager.partition, "t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(manager.partition, "t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(manager.partition, "t", -1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(manager.partition, "no", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_failed_directory_takes_its_partitions_out_of_service(node: Node, tmp_path: Path) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    node.replica_manager.directory_failed(str(tmp_path))
    assert code_of(node.replica_manager.partition, "t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (partition.is_leader, partition.is_alone, node.replica_manager.by_name_bytes) == (False, False, {})


def test_a_changed_configuration_reaches_the_log(node: Node) -> None:
    node.create_topic("t", retention_ms="1000")
    log = node.replica_manager.partition("t", 0).log
    assert log.config.retention_ms == 1000
    node.controller.incremental_alter_configs(
        [((2, "t"), [ConfigChange("retention.ms", ConfigOperation.SET, "5")])],
        defaults=TopicDefaults(1, 1, node.config.topic_defaults),
    )
    assert log.config.retention_ms == 5
    node.config = node.config.with_dynamic(broker={}, default={"log.segment.bytes": "2000000"})
    node.replica_manager.config_changed()
    assert (log.config.retention_ms, log.config.segment_bytes) == (5, 2_000_000)


# --- roles ---------------------------------------------------------------------------------------


def test_only_a_leader_in_its_epoch_serves(node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    partition.apply(registration(leader_epoch=3, partition_epoch=3))
    partition.check_leader(3)
    assert code_of(partition.check_leader, 2) == ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(partition.check_leader, 4) == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.apply(registration(leader=2, leader_epoch=4, partition_epoch=4))
    assert code_of(partition.check_leader) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(append, partition, b"v") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_older_state_is_ignored(node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    partition.apply(registration(leader_epoch=5, partition_epoch=5))
    partition.apply(registration(leader=2, leader_epoch=4, partition_epoch=4))
    assert (partition.is_leader, partition.leader_epoch) == (True, 5)


def test_a_new_epoch_begins_at_the_log_end(node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    append(partition, b"a", b"b")
    partition.apply(registration(leader_epoch=2, partition_epoch=2))
    append(partition, b"c")
    assert partition.end_offset_for_epoch(0) == (0, 2)
    assert partition.end_offset_for_epoch(1) == (0, 2)
    assert partition.end_offset_for_epoch(2) == (2, 3)


# --- the high watermark --------------------------------------------------------------------------


def test_alone_the_high_watermark_is_the_log_end(node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    append(partition, b"a", b"b", acks=-1)
    assert (partition.is_alone, partition.limit(Isolation.HIGH_WATERMARK)) == (True, 2)


def test_the_high_watermark_is_the_lowest_log_end_in_sync(node: Node) -> None:
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    partition.apply(registration(replicas=(1, 2, 3), isr=(1, 2, 3)))
    append(partition, b"a", b"b")
    assert partition.limit(Isolation.HIGH_WATERMARK) == 0
    partition.follower_fetched(2, 2)
    assert partition.limit(Isolation.HIGH_WATERMARK) == 0
    partition.follower_fetched(3, 1)
    assert partition.limit(Isolation.HIGH_WATERMARK) == 1
    # It follows a shrinking ISR, and never goes back.
    partition.apply(registration(replicas=(1, 2, 3), isr=(1, 2), partition_epoch=2))
    assert partition.limit(Isolation.HIGH_WATERMARK) == 2
    partition.apply(registration(replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=3))
    assert partition.limit(Isolation.HIGH_WATERMARK) == 2
    assert partition.limit(Isolation.LOG_END) == 2


def test_below_min_isr_the_high_watermark_stands_still(node: Node) -> None:
    node.create_topic("t", min_insync_replicas="2")
    partition = node.replica_manager.partition("t", 0)
    partition.apply(registration(isr=(1,)))
    append(partition, b"a")
    assert partition.limit(Isolation.HIGH_WATERMARK) == 0
    assert code_of(lambda: append(partition, b"b", acks=-1)) == ErrorCode.NOT_ENOUGH_REPLICAS
    # One replica cannot be asked for two.
    partition.apply(registration(replicas=(1,), isr=(1,), partition_epoch=2))
    assert partition.limit(Isolation.HIGH_WATERMARK) == 1


# --- reading -------------------------------------------------------------------------------------


def read(node: Node, *wanted: FetchPartition, **options: Any) -> list[Any]:
    reader = FetchParams(Isolation.HIGH_WATERMARK, **options)
    return node.replica_manager.read_from_log(wanted, reader, 1 << 20)


def test_a_wrong_topic_id_is_inconsistent(node: Node) -> None:
    topic = node.create_topic("t")
    rows = read(
        node,
        FetchPartition("t", topic.topic_id, 0, 0, 100),
        FetchPartition("t", bytes(range(16)), 0, 0, 100),
        FetchPartition(None, bytes(range(16)), 0, 0, 100),
        FetchPartition("t", ZERO_UUID, 0, 0, 100),
    )
    assert [row.error_code for row in rows] == [
        0,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        0,
    ]


def test_each_min_one_gives_every_partition_a_batch(node: Node) -> None:
    node.create_topic("t", partitions=2)
    for index in (0, 1):
        append(node.replica_manager.partition("t", index), b"v" * 100)
    wanted = [FetchPartition("t", ZERO_UUID, index, 0, 1) for index in (0, 1)]
    assert [row.size > 0 for row in read(node, *wanted)] == [True, False]
    assert [row.size > 0 for row in read(node, *wanted, each_min_one=True)] == [True, True]
