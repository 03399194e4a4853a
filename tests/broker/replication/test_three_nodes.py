"""Three nodes in one process: what is written to one is on all, byte for byte."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
import trio

from kcli.broker.replication.leader_endpoint import PeerUnreachable
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.broker.replication.clusters import append, create, files_of, leader_of, node, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


async def test_records_are_copied_to_every_replica_byte_for_byte(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", internal_segment_bytes="2000", index_interval_bytes="100")
        partition = leader_of(cluster)
        for number in range(60):
            end = append(partition, *[b"v%d" % number] * (number % 7 + 1))
            await until(lambda end=end: partition.log.high_watermark == end)
        assert partition.isr == {1, 2, 3}
        replicas = replicas_of(cluster)
        await until(lambda: all(each.log.high_watermark == end for each in replicas.values()))
    files = {node_id: files_of(each) for node_id, each in replicas.items()}
    assert len([name for name in files[1] if name.endswith(".log")]) > 3
    assert files[1] == files[2] == files[3]


async def test_a_client_produces_with_acks_all_and_reads_what_it_wrote(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", partitions=6, min_insync_replicas="2")
        servers = ",".join(cluster.bootstrap_servers)
        delivered = await trio.to_thread.run_sync(_produce, servers, 3000)
        assert delivered == 3000
        read = await trio.to_thread.run_sync(_consume, servers, 3000)
        assert sorted(read) == sorted(b"value %d" % number for number in range(3000))
        for index in range(6):
            replicas = replicas_of(cluster, "t", index)
            assert {each.log.log_end_offset for each in replicas.values()} == {replicas[1].log.log_end_offset}
            assert leader_of(cluster, "t", index).isr == {1, 2, 3}


def _produce(servers: str, count: int) -> int:
    delivered = []

    def settle(error: object, message: object) -> None:
        assert error is None, error
        delivered.append(message)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 1}
    )
    for number in range(count):
        producer.produce("t", b"value %d" % number, key=b"%d" % number, on_delivery=settle)
        producer.poll(0)
    assert producer.flush(60) == 0
    return len(delivered)


def _consume(servers: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.close()
    return values


async def test_a_replica_that_cannot_fetch_holds_up_acks_all_until_it_can(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, replica_fetch_backoff_ms="10") as cluster:
        create(cluster, "t")
        partition = leader_of(cluster)
        await until(lambda: partition.in_sync is not None and _caught_up(partition, 0))
        others = [node_id for node_id in (1, 2, 3) if node_id != partition.node_id]
        cluster.peers.between(others[0], partition.node_id).is_cut = True
        end = append(partition, b"v")
        await until(lambda: replicas_of(cluster)[others[1]].log.log_end_offset == end)
        assert partition.log.high_watermark == 0
        assert replicas_of(cluster)[others[0]].log.log_end_offset == 0
        with pytest.raises(PeerUnreachable):
            cluster.peers.between(others[0], partition.node_id).reach()
        cluster.peers.between(others[0], partition.node_id).is_cut = False
        await until(lambda: partition.log.high_watermark == end)


def _caught_up(partition, offset: int) -> bool:
    return all(remote.log_end_offset == offset for remote in partition.in_sync.remotes.values())


async def test_followers_that_are_cut_off_leave_the_isr_and_come_back(tmp_path: Path) -> None:
    limit = dict.fromkeys(("replica_lag_time_max_ms", "replica_fetch_wait_max_ms"), "300")
    settings = {**limit, "replica_fetch_backoff_ms": "20"}
    async with running_cluster(tmp_path, nodes=4, **settings) as cluster:
        create(cluster, "t", on=(2, 3, 4), min_insync_replicas="2")
        partition = leader_of(cluster)
        await until(lambda: _caught_up(partition, 0))
        cluster.peers[3, 2].is_cut = True
        end = append(partition, b"v")
        await until(lambda: partition.isr == {2, 4})
        await until(lambda: partition.log.high_watermark == end)
        # So says every node's metadata.
        await until(
            lambda: all(set(each.image.topics["t"].partitions[0].isr) == {2, 4} for each in cluster.brokers)
        )
        cluster.peers[4, 2].is_cut = True
        end = append(partition, b"w")
        await until(lambda: partition.isr == {2})
        assert partition.log.high_watermark == end - 1  # It stands still below min.insync.replicas.
        with pytest.raises(KafkaError) as caught:
            append(partition, b"refused")
        assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == end
        cluster.peers[3, 2].is_cut = cluster.peers[4, 2].is_cut = False
        # Both at once: on a busy machine who has come back may leave once more.
        await until(lambda: partition.isr == {2, 3, 4} and partition.log.high_watermark == end)
        assert node(cluster, 3).replica_manager.partition("t", 0).log.log_end_offset == end
