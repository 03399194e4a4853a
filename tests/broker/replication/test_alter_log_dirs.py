"""Replicas that move between the log directories of their node (KIP-113)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcli.broker.node.broker import Broker
from kcli.broker.process.cluster import Cluster
from kcli.broker.replication.partition import Partition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kcli.storage.log.log_read import Isolation
from tests.broker.replication.clusters import NOW_MS, append, create, files_of
from tests.broker.replication.test_nearest_replica import connected
from tests.broker.single_node import Client
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


def directories(tmp_path: Path) -> dict[str, str]:
    return {"log_dirs": f"{tmp_path}/a,{tmp_path}/b"}


def other_directory(broker: Broker, topic: str = "t") -> str:
    current = broker.replica_manager.partition(topic, 0).log.parent_directory
    return next(each.path for each in broker.log_manager.directories if each.path != current)


async def ask(client: Client, path: str, topic: str = "t", version: int = 2) -> ErrorCode:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    answer = await client.ask(request, version)
    (result,) = answer.results
    assert result.topic_name == topic
    return ErrorCode(result.partitions[0].error_code)


def started(cluster: Cluster, **configs: str) -> Broker:
    create(cluster, "t", replicas=1, **configs)
    return cluster.brokers[0]


def records_of(partition: Partition) -> bytes:
    files = files_of(partition)
    return b"".join(files[name] for name in sorted(files) if name.endswith(".log"))


async def test_a_replica_moves_with_all_it_has_and_goes_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster, connected(cluster, 1) as client:
        broker = started(cluster, internal_segment_bytes="500")
        partition = broker.replica_manager.partition("t", 0)
        for number in range(30):
            append(partition, b"v%d" % number)
        partition.delete_records(7)
        former, target = partition.log, other_directory(broker)
        before = records_of(partition)
        assert await ask(client, target) == ErrorCode.NONE
        await until(lambda: partition.log is not former)
        log = partition.log
        assert (log.parent_directory, log.is_future) == (target, False)
        assert os.path.basename(log.directory) == "t-0"
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 30, 30)
        assert before.endswith(records_of(partition))
        assert log.read(7, 1 << 20, isolation=Isolation.HIGH_WATERMARK).file_slice is not None
        assert former.directory.endswith("-delete")
        assert append(partition, b"more") == 31
        assert log.log_end_offset == log.high_watermark == 31
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster:
        log = cluster.brokers[0].replica_manager.partition("t", 0).log
        assert (log.parent_directory, log.log_start_offset, log.log_end_offset) == (target, 7, 31)


async def test_a_move_that_a_stop_interrupted_goes_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster:
        broker = started(cluster)
        partition = broker.replica_manager.partition("t", 0)
        append(partition, b"a", b"b")
        target = other_directory(broker)
        broker.log_manager.create_future_log(partition.log, directory=target, now_ms=NOW_MS)
        assert [name.endswith("-future") for name in os.listdir(target) if name.startswith("t-0")] == [True]
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster:
        partition = cluster.brokers[0].replica_manager.partition("t", 0)
        await until(lambda: partition.log.parent_directory == target)
        assert (partition.log.log_end_offset, partition.log.high_watermark) == (2, 2)


async def test_what_cannot_be_moved_says_why(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster, connected(cluster, 1) as client:
        broker = started(cluster)
        current = broker.replica_manager.partition("t", 0).log.parent_directory
        for version in (0, 1, 2):
            assert await ask(client, "/nowhere", version=version) == ErrorCode.LOG_DIR_NOT_FOUND
            assert await ask(client, current, "u", version) == ErrorCode.REPLICA_NOT_AVAILABLE
            assert await ask(client, current, version=version) == ErrorCode.NONE
            # No directory could have the name that the copy of such a topic would get.
            assert await ask(client, "/nowhere", "x" * 214, version) == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert await ask(client, "/nowhere", "x" * 213, version) == ErrorCode.LOG_DIR_NOT_FOUND
        assert broker.log_manager.all_logs == tuple(broker.log_manager)


@pytest.mark.parametrize("number", [0, 1])
async def test_a_replica_is_made_where_it_was_asked_for(number: int, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster, connected(cluster, 1) as client:
        wanted = list(cluster.brokers[0].log_manager.directories)[number].path
        assert await ask(client, wanted, "later") == ErrorCode.REPLICA_NOT_AVAILABLE
        create(cluster, "later", replicas=1)
        log = cluster.brokers[0].replica_manager.partition("later", 0).log
        assert log.parent_directory == wanted


async def test_a_copy_is_told_of_and_goes_with_its_topic(tmp_path: Path) -> None:
    settings = directories(tmp_path)
    async with running_cluster(tmp_path, **settings) as cluster, connected(cluster, 1) as client:
        broker = started(cluster)
        partition = broker.replica_manager.partition("t", 0)
        append(partition, b"a", b"b")
        target = other_directory(broker)
        # Made, but not moved: the copy has nothing yet.
        copy = broker.log_manager.create_future_log(partition.log, directory=target, now_ms=NOW_MS)
        answer = await client.ask(DescribeLogDirsRequest(topics=None), 4)
        told = {
            (each.log_dir, row.is_future_key): row.offset_lag
            for each in answer.results
            for topic in each.topics
            for row in topic.partitions
        }
        assert told == {(partition.log.parent_directory, False): 0, (target, True): 2}
        broker.controller.delete_topics([partition.topic_id])
        assert copy.directory.endswith("-delete")
        with pytest.raises(KafkaError):
            broker.replica_manager.partition("t", 0)


async def test_another_directory_replaces_the_first(tmp_path: Path) -> None:
    settings = {"log_dirs": ",".join(f"{tmp_path}/{name}" for name in "abc")}
    async with running_cluster(tmp_path, **settings) as cluster:
        broker = started(cluster)
        partition = broker.replica_manager.partition("t", 0)
        append(partition, b"a")
        first, second = (
            each.path
            for each in broker.log_manager.directories
            if each.path != partition.log.parent_directory
        )
        moves = broker.replica_manager.alter_log_dirs_manager
        moves.begin("t", 0, first)
        copy = broker.log_manager.future_log("t", 0)
        moves.begin("t", 0, second)
        assert copy is not None
        assert copy.directory.endswith("-delete")
        await until(lambda: partition.log.parent_directory == second)


async def test_the_controller_knows_where_every_replica_lies(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, **directories(tmp_path)) as cluster:
        broker = started(cluster)
        partition = broker.replica_manager.partition("t", 0)

        def known() -> bytes:
            return broker.image.topics["t"].partitions[0].directory_of(1)

        ids = {each.path: each.directory_id for each in broker.log_manager.directories}
        await until(lambda: known() == ids[partition.log.parent_directory])
        target = other_directory(broker)
        broker.replica_manager.alter_log_dirs_manager.begin("t", 0, target)
        await until(lambda: known() == ids[target])
        assert partition.is_leader
