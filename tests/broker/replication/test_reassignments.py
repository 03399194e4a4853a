"""Replicas that come and go with a reassignment: data goes first, then the old replicas."""

from __future__ import annotations

import os
from pathlib import Path

from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.replication.alter_log_dirs_manager import TURN_BYTES
from tests.broker.replication.clusters import append, create, leader_of, node, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


async def test_a_partition_moves_to_other_nodes_while_it_is_written(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=4) as cluster:
        create(cluster, "t", on=(1, 2), internal_segment_bytes="1000")
        before = leader_of(cluster)
        for number in range(50):
            append(before, b"v%d" % number)
        await until(lambda: before.log.high_watermark == 50)
        old = {node_id: each.log for node_id, each in replicas_of(cluster).items()}
        controller = node(cluster, 1).controller
        (error,) = controller.alter_reassignments([Reassignment("t", 0, (3, 4))])
        assert error is None
        append(leader_of(cluster), b"meanwhile", acks=1)

        def state() -> tuple[tuple[int, ...], set[int]]:
            partition = controller.image.topics["t"].partitions[0]
            return partition.replicas, set(partition.isr)

        await until(lambda: state() == ((3, 4), {3, 4}))
        await until(lambda: set(replicas_of(cluster)) == {3, 4})
        leader = leader_of(cluster)
        assert leader.node_id in {3, 4}
        end = append(leader, b"after")
        assert end == 52
        await until(lambda: {each.log.high_watermark for each in replicas_of(cluster).values()} == {52})
        assert all(log.directory.endswith("-delete") for log in old.values())
        assert not any("t-0" in os.listdir(f"{tmp_path}/node-{each}") for each in (1, 2))


async def test_batches_larger_than_what_is_copied_at_once_are_copied_whole(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", max_message_bytes=str(8 * TURN_BYTES))
        leader = leader_of(cluster)
        for size in (10, 3 * TURN_BYTES, TURN_BYTES - 70, TURN_BYTES, 5):
            end = append(leader, b"x" * size)
        await until(lambda: {each.log.high_watermark for each in replicas_of(cluster).values()} == {end})
        contents = {
            (Path(each.log.directory) / f"{0:020}.log").read_bytes() for each in replicas_of(cluster).values()
        }
        assert len(contents) == 1
