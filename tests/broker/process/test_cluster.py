"""The cluster as a whole: what a start needs, what a stop leaves, and what the next start finds."""

from __future__ import annotations

import errno
import logging
import shutil
import socket
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.process.cluster import Cluster, ClusterOptions
from kcli.client.admin import NewTopic, create_topics, describe_cluster, list_topics
from kcli.client.client import connect
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.node.broker import Broker


async def created(cluster: Cluster, name: str, partitions: int = 1) -> None:
    async with connect(",".join(cluster.bootstrap_servers)) as client:
        outcome = (await create_topics(client, [NewTopic(name, partitions=partitions)]))[name]
        assert not isinstance(outcome, KcliError), outcome


async def topic_names(cluster: Cluster) -> list[str]:
    async with connect(",".join(cluster.bootstrap_servers)) as client:
        return sorted(topic.name for topic in await list_topics(client))


async def start_failure(options: ClusterOptions) -> KcliError:
    with pytest.RaisesGroup(KcliError, flatten_subgroups=True) as caught:
        async with trio.open_nursery() as nursery:
            await nursery.start(Cluster(options).run)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, KcliError)
    return error


async def test_every_node_answers_on_its_own_port_when_the_start_is_done(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        assert len(set(cluster.bootstrap_servers)) == 3
        for server in cluster.bootstrap_servers:
            async with connect(server) as client:
                described = await describe_cluster(client)
                assert described.cluster_id == cluster.cluster_id
                assert [node.node_id for node in described.nodes] == [1, 2, 3]


async def test_topics_and_identity_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "kept", partitions=3)
        cluster_id, topic_id = cluster.cluster_id, cluster.brokers[0].image.topics["kept"].topic_id
    async with running_cluster(tmp_path, kill=True) as cluster:
        assert cluster.cluster_id == cluster_id
        await created(cluster, "later")
    async with running_cluster(tmp_path) as cluster:
        assert await topic_names(cluster) == ["kept", "later"]
        assert cluster.brokers[0].image.topics["kept"].topic_id == topic_id


async def test_recovery_follows_a_kill_and_not_a_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    with caplog.at_level(logging.WARNING):
        async with running_cluster(tmp_path, kill=True):
            assert "recovering" not in caplog.text
        async with running_cluster(tmp_path):
            assert "recovering 1 logs" in caplog.text


async def test_every_term_of_the_controller_is_higher_than_the_last(tmp_path: Path) -> None:
    terms = []
    for kill in (False, True, False):
        async with running_cluster(tmp_path, kill=kill) as cluster:
            terms.append(cluster.brokers[0].image.epoch)
    assert terms == [1, 2, 3]


async def test_a_second_process_on_the_directory_is_refused_by_name(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        error = await start_failure(ClusterOptions(tmp_path, host="127.0.0.1", port=0))
        assert "in use" in error.message
        assert await topic_names(cluster) == []


async def test_a_port_in_use_is_refused_with_a_hint(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = await start_failure(ClusterOptions(tmp_path, host="127.0.0.1", port=port))
    assert error.message == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert error.hint is not None


async def test_an_unknown_property_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    options = ClusterOptions(tmp_path, host="127.0.0.1", port=0, properties={"num.partition": "3"})
    error = await start_failure(options)
    assert isinstance(error, UsageError)
    assert error.hint == "did you mean `num.partitions`?"


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path):
        pass
    properties = {"node.id": "7", "log.dirs": str(tmp_path / "node-1")}
    error = await start_failure(ClusterOptions(tmp_path, host="127.0.0.1", port=0, properties=properties))
    assert error.message.endswith("belongs to node 1, not 7")


async def test_a_stop_while_loading_ends_the_start(tmp_path: Path) -> None:
    cluster = Cluster(ClusterOptions(tmp_path, host="127.0.0.1", port=0))
    cluster.stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
    assert cluster.stopped.is_set()


async def test_a_copied_topic_directory_is_served_when_it_is_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "from") as cluster:
        await created(cluster, "moved", partitions=2)
        topic_id = cluster.brokers[0].image.topics["moved"].topic_id
    async with running_cluster(tmp_path / "to"):
        pass
    for partition in range(2):
        name = f"moved-{partition}"
        shutil.copytree(tmp_path / "from" / "node-1" / name, tmp_path / "to" / "node-1" / name)
    async with running_cluster(tmp_path / "to", adopt=True) as cluster:
        assert await topic_names(cluster) == ["moved"]
        topic = cluster.brokers[0].image.topics["moved"]
        assert (topic.topic_id, len(topic.partitions)) == (topic_id, 2)


async def test_a_copied_topic_directory_is_set_aside_when_it_is_not_adopted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path):
        pass
    stranger = tmp_path / "node-1" / "stranger-0"
    stranger.mkdir()
    (stranger / "partition.metadata").write_text("version: 0\ntopic_id: XbdEGTQLTI-nkjyys2TAnQ")
    async with running_cluster(tmp_path) as cluster:
        assert await topic_names(cluster) == []
    assert not stranger.exists()
    assert [path.name for path in (tmp_path / "node-1").glob("stranger-0.*-stray")]


async def test_more_replicas_than_there_are_nodes_are_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster, connect(cluster.bootstrap_servers[0]) as client:
        wanted = NewTopic("copied", partitions=1, replication_factor=4)
        outcome = (await create_topics(client, [wanted]))["copied"]
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.INVALID_REPLICATION_FACTOR


# --- copies of the metadata log -------------------------------------------------------------------


def metadata_log(data_dir: Path, node_id: int) -> Path:
    return data_dir / f"node-{node_id}" / "__cluster_metadata-0" / "00000000000000000000.log"


async def test_a_directory_with_only_one_copy_of_the_metadata_gets_the_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        await created(cluster, "t", partitions=3)
    for node_id in (1, 3):
        shutil.rmtree(metadata_log(tmp_path, node_id).parent)
    async with running_cluster(tmp_path, nodes=3) as cluster:
        assert cluster.election.controller_id == 2
        assert await topic_names(cluster) == ["t"]
    data = {metadata_log(tmp_path, node_id).read_bytes() for node_id in (1, 2, 3)}
    assert len(data) == 1


async def test_a_damaged_copy_of_the_metadata_is_made_anew_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        await created(cluster, "t")
    path = metadata_log(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert cluster.election.controller_id == 2
        assert await topic_names(cluster) == ["t"]
    assert "the metadata log is damaged at byte 0" in caplog.text
    assert (tmp_path / "node-1" / "damaged-metadata-log.1" / path.name).read_bytes() == data
    async with running_cluster(tmp_path, nodes=2) as cluster:
        assert await topic_names(cluster) == ["t"]


async def test_without_a_sound_copy_of_the_metadata_the_start_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await created(cluster, "t")
    path = metadata_log(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    error = await start_failure(ClusterOptions(tmp_path, nodes=2, host="127.0.0.1", port=0))
    assert "is damaged at byte 91, before its end" in error.message
    assert path.read_bytes() == data


# --- nodes that fail -----------------------------------------------------------------------------


def lose_disk(broker: Broker) -> None:
    """Have the log directory of a node fail under one of its logs."""
    log = next(iter(broker.log_manager))
    assert log.failed("flush", OSError(errno.EIO, "Input/output error")).code is ErrorCode.KAFKA_STORAGE_ERROR


async def led_by_every_node(cluster: Cluster) -> None:
    await created(cluster, "t", partitions=len(cluster.brokers))


def was_closed(data_dir: Path, node_id: int) -> bool:
    return (data_dir / f"node-{node_id}" / ".kafka_cleanshutdown").exists()


async def run_until_it_fails(data_dir: Path) -> tuple[Cluster, KcliError]:
    """Run a cluster until the disk of its only node fails; return it with what the process ends with."""
    cluster = Cluster(ClusterOptions(data_dir, nodes=1, host="127.0.0.1", port=0))
    with pytest.RaisesGroup(KcliError, flatten_subgroups=True) as caught:
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await led_by_every_node(cluster)
            lose_disk(cluster.brokers[0])
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, KcliError)
    return cluster, error


async def test_a_node_whose_disk_fails_is_fenced_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        await led_by_every_node(cluster)
        fenced = trio.Event()
        first, second, third = cluster.brokers
        first.controller.publisher.observe(lambda image, _: fenced.set() if image.brokers[2].fenced else None)
        lose_disk(second)
        await fenced.wait()
        for broker in (first, third):
            assert [each.node_id for each in broker.image.brokers.values() if not each.fenced] == [1, 3]
            leaders = sorted(partition.leader for partition in broker.image.topics["t"].partitions)
            assert leaders == [-1, 1, 3]
        async with connect(cluster.bootstrap_servers[2]) as client:
            assert [node.node_id for node in (await describe_cluster(client)).nodes] == [1, 3]
        assert cluster.failed.pop(2)
    assert "node 2 has failed: node 2 stops: every log directory has failed" in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_nodes_that_are_left_stop_in_order(tmp_path: Path) -> None:
    cluster = Cluster(ClusterOptions(tmp_path, nodes=2, host="127.0.0.1", port=0))
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        await led_by_every_node(cluster)
        fenced = trio.Event()
        cluster.brokers[0].controller.publisher.observe(
            lambda image, _: fenced.set() if image.brokers[2].fenced else None
        )
        lose_disk(cluster.brokers[1])
        await fenced.wait()
        cluster.stop()
    assert list(cluster.failed) == [2]
    assert was_closed(tmp_path, 1)
    assert not was_closed(tmp_path, 2)


async def test_a_node_that_comes_back_at_the_next_start_leads_again(tmp_path: Path) -> None:
    await test_the_nodes_that_are_left_stop_in_order(tmp_path)
    async with running_cluster(tmp_path, nodes=2) as cluster:
        leaders = [partition.leader for partition in cluster.brokers[0].image.topics["t"].partitions]
        assert sorted(leaders) == [1, 2]


async def test_the_process_ends_when_its_only_node_fails(tmp_path: Path) -> None:
    cluster, error = await run_until_it_fails(tmp_path)
    assert error.message == "node 1 stops: every log directory has failed"
    assert error.exit_code == 1
    assert cluster.stopped.is_set()


async def test_another_node_is_the_controller_when_its_node_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        await led_by_every_node(cluster)
        assert (cluster.election.controller_id, cluster.election.epoch) == (1, 1)
        lose_disk(cluster.brokers[0])
        await cluster.nodes[1].ended.wait()
        assert (cluster.election.controller_id, cluster.election.epoch) == (2, 2)
        for broker in cluster.brokers[1:]:
            assert [each.node_id for each in broker.image.brokers.values() if not each.fenced] == [2, 3]
        async with connect(cluster.bootstrap_servers[2]) as client:
            outcome = (await create_topics(client, [NewTopic("later", partitions=1)]))["later"]
            assert not isinstance(outcome, KcliError), outcome
        assert cluster.failed.pop(1)
    assert "node 1 has failed: node 1 stops: every log directory has failed" in caplog.text
    assert not was_closed(tmp_path, 1)
    assert was_closed(tmp_path, 2)
    async with running_cluster(tmp_path, nodes=3) as cluster:
        assert await topic_names(cluster) == ["later", "t"]
        assert cluster.election.epoch == 3


async def test_a_partition_whose_directory_fails_has_no_leader_and_the_node_goes_on(tmp_path: Path) -> None:
    properties = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b", "broker.heartbeat.interval.ms": "60000"}
    cluster = Cluster(ClusterOptions(tmp_path, host="127.0.0.1", port=0, properties=properties))
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        await created(cluster, "t", partitions=2)
        broker = cluster.brokers[0]
        directories = {each.parent_directory: each for each in broker.log_manager}
        await until(lambda: all(each.directories for each in broker.image.topics["t"].partitions))
        log = directories[f"{tmp_path}/b"]
        log.failed("flush", OSError(errno.EIO, "Input/output error"))
        await until(lambda: -1 in [each.leader for each in broker.image.topics["t"].partitions])
        partition = log.topic_partition.partition
        leaders = [each.leader for each in broker.image.topics["t"].partitions]
        assert leaders == [-1 if index == partition else 1 for index in range(2)]
        cluster.stop()
    assert not cluster.failed


async def test_the_process_ends_when_the_directory_of_the_metadata_log_fails(tmp_path: Path) -> None:
    properties = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    cluster = Cluster(ClusterOptions(tmp_path, host="127.0.0.1", port=0, properties=properties))
    with pytest.RaisesGroup(
        pytest.RaisesExc(KcliError, match="the directory of the metadata log has failed"),
        flatten_subgroups=True,
    ):
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await created(cluster, "t", partitions=2)
            log = next(
                each for each in cluster.brokers[0].log_manager if each.parent_directory == f"{tmp_path}/a"
            )
            log.failed("flush", OSError(errno.EIO, "Input/output error"))
