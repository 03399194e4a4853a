"""With `log.flush.interval.messages=1`, which `--durable` sets, acknowledged records are on every disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from kcli.protocol.error_codes import ErrorCode
from kcli.storage import disk
from kcli.storage.log.log_read import Isolation
from tests.broker.records import batch, produce_request, produced
from tests.broker.replication.clusters import NOW_MS, append, create, leader_of, node, replicas_of
from tests.broker.single_node import connected, running_node
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


class HeldDisk:
    """Notes the log files whose records are synced; syncs below a `held` directory wait for `release`."""

    def __init__(self, held: str) -> None:
        self.begun: list[str] = []
        self.synced: list[str] = []
        self._held = held
        self._released = threading.Event()
        self._sync = disk.sync_data

    def sync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self.begun.append(path)
        if self._held in path:
            self._released.wait(20)
        self._sync(descriptor)
        self.synced.append(path)

    def release(self) -> None:
        self._released.set()

    def syncs_of(self, directory: str) -> int:
        return len([path for path in self.synced if directory in path])


@pytest.fixture
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldDisk]:
    """The disk, with the directory of the test's parameter held."""
    held = HeldDisk(request.param)
    monkeypatch.setattr(disk, "sync_data", held.sync)
    yield held
    held.release()


@pytest.mark.parametrize("held", ["/t-0/"], indirect=True)
@pytest.mark.parametrize("acks", [1, -1])
async def test_producers_are_answered_after_the_sync_and_share_it(
    held: HeldDisk, acks: int, tmp_path: Path
) -> None:
    answers: list[int] = []
    async with running_node(tmp_path, {"log.flush.interval.messages": "1"}) as node:
        node.create_topic("t")
        log = node.replica_manager.partition("t", 0).log

        async def send() -> None:
            async with connected(node) as client:
                row = produced(await client.ask(produce_request("t", batch(b"v"), acks=acks), 9))
                assert row.error_code == ErrorCode.NONE
                assert log.synced_offset > row.base_offset
                answers.append(row.base_offset)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(send)
            await until(lambda: log.log_end_offset == 8 and held.begun)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert answers == []
            assert held.begun == [log.segments.active.records.path]
            held.release()
        assert sorted(answers) == list(range(8))
        # The first may have begun with any number of the records; the other one had all that were left.
        assert held.syncs_of("/t-0/") <= 2


@pytest.mark.parametrize("held", ["/node-2/t-0/"], indirect=True)
async def test_a_follower_syncs_before_it_counts_as_having_the_records(
    held: HeldDisk, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, nodes=2, log_flush_interval_messages="1") as cluster:
        create(cluster, "t", on=(1, 2))
        leader = leader_of(cluster)
        end = append(leader, b"v")
        follower = replicas_of(cluster)[2]
        await until(lambda: follower.log.log_end_offset == end and held.begun)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert follower.log.synced_offset == 0
        assert leader.log.high_watermark == 0
        held.release()
        await until(lambda: leader.log.high_watermark == end)
        assert follower.log.synced_offset == end


@pytest.mark.parametrize("held", ["/node-2/t-0/"], indirect=True)
async def test_a_follower_syncs_what_it_has_from_before_it_tells_of_it(
    held: HeldDisk, tmp_path: Path
) -> None:
    async with running_cluster(tmp_path, nodes=2, log_flush_interval_messages="1") as cluster:
        create(cluster, "t", on=(1, 2))
        leader, follower = leader_of(cluster), replicas_of(cluster)[2]
        fetchers = node(cluster, 2).replica_manager.fetchers
        fetchers.stop(follower.key)
        end = append(leader, b"v")
        # As after a crash of the process: records that an earlier fetcher has written, but not synced.
        found = leader.log.read(0, 1 << 20, isolation=Isolation.LOG_END).file_slice
        assert found is not None
        follower.log.append_as_follower(found.read(), now_ms=NOW_MS)
        fetchers.follow(follower)
        await until(lambda: held.begun)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert leader.log.high_watermark == 0
        held.release()
        await until(lambda: leader.log.high_watermark == end)
        assert follower.log.synced_offset == end


@pytest.mark.parametrize("held", ["-future/"], indirect=True)
async def test_a_copy_is_synced_before_it_takes_the_place_of_its_log(held: HeldDisk, tmp_path: Path) -> None:
    log_dirs = f"{tmp_path}/a,{tmp_path}/b"
    async with running_cluster(
        tmp_path, nodes=1, log_flush_interval_messages="1", log_dirs=log_dirs
    ) as cluster:
        create(cluster, "t", replicas=1)
        broker, partition = node(cluster, 1), leader_of(cluster)
        former, end = partition.log, append(partition, b"v")
        target = next(each for each in log_dirs.split(",") if each != former.parent_directory)
        broker.replica_manager.alter_log_dirs_manager.begin("t", 0, target)
        await until(lambda: held.begun)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert partition.log is former
        held.release()
        await until(lambda: partition.log is not former and partition.writing is None)
        assert partition.log.parent_directory == target
        assert partition.log.synced_offset == partition.log.log_end_offset == end
