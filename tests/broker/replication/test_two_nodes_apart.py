"""Two nodes that do not reach each other: the controller's goes on alone, the other decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.broker.replication.clusters import append, create, files_of, leader_of, node, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_controllers_node_goes_on_and_the_other_loses_what_only_it_took(tmp_path: Path) -> None:
    async with running_cluster(
        tmp_path,
        nodes=2,
        broker_heartbeat_interval_ms="50",
        broker_session_timeout_ms="500",
        controller_quorum_fetch_timeout_ms="200",
        auto_leader_rebalance_enable="false",
    ) as cluster:
        assert cluster.election.controller_id == 1
        epoch = cluster.election.epoch
        create(cluster, "t", on=(2, 1))
        former = leader_of(cluster)
        end = append(former, b"copied")
        await until(lambda: former.log.high_watermark == end)
        cut = cluster.faults.add("cut", **{"from": 1, "to": 2})
        append(former, b"only here", acks=1)
        await until(lambda: cluster.publisher.latest.brokers[2].fenced)
        # It takes what the other led, and decides alone.
        assert leader_of(cluster).node_id == 1
        append(leader_of(cluster), b"counts")
        create(cluster, "u", on=(1,))
        # The other knows of nothing, still leads for whoever asks it, and nothing it takes is committed.
        append(former, b"not even copied", acks=1)
        assert former.log.high_watermark == end
        assert "u" not in node(cluster, 2).image.topics
        with pytest.raises(KafkaError) as caught:
            _ = node(cluster, 2).controller
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert (cluster.election.controller_id, cluster.election.epoch) == (1, epoch)
        cluster.faults.clear(cut.number)
        await until(lambda: leader_of(cluster).isr == {1, 2})
        replicas = replicas_of(cluster)
        await until(lambda: replicas[1].log.high_watermark == replicas[2].log.high_watermark == end + 1)
        logs = [files_of(replicas[each])["00000000000000000000.log"] for each in (1, 2)]
        assert logs[0] == logs[1]
        assert b"counts" in logs[0]
        assert "u" in node(cluster, 2).image.topics
