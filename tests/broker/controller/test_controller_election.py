"""The election of the controller: which node it is, its successors, and what no election loses."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.controller_election import ControllerElection, ControllerLink
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.metadata import metadata_log
from kcli.broker.metadata.metadata_copies import MetadataCopies
from kcli.broker.metadata.metadata_image import Endpoint
from kcli.broker.metadata.metadata_publisher import MetadataPublisher
from kcli.broker.metadata.metadata_replay import replay
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.controller.controller import ControllerLog
    from kcli.broker.metadata.metadata_image import MetadataImage

NOW_MS = 1_795_243_063_165


class Cluster:
    """Three nodes, reduced to their copies of the metadata log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paused: set[int] = set()
        self.cut: set[frozenset[int]] = set()
        self.failed: list[int] = []
        self.copies = MetadataCopies(wall_ms=lambda: NOW_MS, report=lambda line: None)
        self.publisher = MetadataPublisher(failed=lambda node_id, error: None)
        self.election = ControllerElection(
            self.copies,
            self.publisher,
            make=self._make,
            running=lambda: [node_id for node_id, _ in self.copies if node_id not in self.paused],
            reaches=lambda one, other: frozenset({one, other}) not in self.cut,
            failed=lambda node_id, error: self.failed.append(node_id),
        )
        for node_id in (1, 2, 3):
            self.open(node_id)

    def _make(self, node_id: int, log: ControllerLog, image: MetadataImage) -> Controller:
        return Controller(log, image, random=Random(0), publisher=self.publisher)

    def open(self, node_id: int) -> None:
        self.copies.open(node_id, str(self.path / f"node-{node_id}"))

    def lose(self, node_id: int) -> None:
        self.copies.close(node_id)
        self.election.node_gone(node_id, 0)

    def isolate(self, node_id: int) -> None:
        self.cut |= {frozenset({node_id, other}) for other in (1, 2, 3) if other != node_id}

    def register(self) -> None:
        """Have brokers that topics can be placed on."""
        for node_id in (1, 2, 3):
            epoch = self.controller.register_broker(
                BrokerRegistrationRequest(
                    node_id=node_id,
                    incarnation=bytes([node_id]) * 16,
                    endpoints=[Endpoint("PLAINTEXT", "h", 9091 + node_id)],
                    directories=[bytes([node_id]) * 16],
                )
            )
            self.controller.unfence_broker(node_id=node_id, epoch=epoch)

    def create(self, name: str) -> None:
        (outcome,) = self.controller.create_topics([NewTopic(name, 1, 1)], defaults=TopicDefaults())
        if isinstance(outcome, KafkaError):
            raise outcome

    @property
    def controller(self) -> Controller:
        assert self.election.controller is not None
        return self.election.controller

    def image(self, node_id: int) -> MetadataImage:
        """What a copy makes by itself."""
        return replay(self.copies[node_id].replay())

    def versions(self) -> set[tuple[int, int]]:
        return {self.copies.version(node_id) for node_id, _ in self.copies}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path)
    cluster.election.elect(1)
    cluster.register()
    return cluster


def test_every_copy_has_every_decision(cluster: Cluster) -> None:
    cluster.create("t")
    assert len(cluster.versions()) == 1
    for node_id in (1, 2, 3):
        assert cluster.image(node_id) == cluster.controller.image


def test_a_node_that_is_lost_is_succeeded_at_once_in_a_higher_epoch(cluster: Cluster) -> None:
    cluster.create("t")
    cluster.lose(1)
    assert (cluster.election.controller_id, cluster.election.epoch) == (2, 2)
    assert "t" in cluster.controller.image.topics
    cluster.create("u")
    cluster.lose(2)
    assert (cluster.election.controller_id, cluster.election.epoch) == (3, 3)
    assert set(cluster.image(3).topics) == {"t", "u"}


def test_a_controller_whose_term_is_over_decides_nothing(cluster: Cluster) -> None:
    former = cluster.controller
    cluster.election.move_to(2)
    with pytest.raises(KafkaError, match="node 1 is not the controller any more") as caught:
        former.unregister_broker(node_id=3)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    assert 3 in cluster.controller.image.brokers


def test_one_that_is_paused_is_succeeded_when_the_others_would_have_noticed(cluster: Cluster) -> None:
    cluster.paused = {1}
    cluster.election.tick(10_000)
    cluster.election.tick(11_999)
    assert cluster.election.controller_id == 1
    with pytest.raises(KafkaError, match="node 1, the controller, does not answer"):
        ControllerLink(2, cluster.election).current()
    cluster.election.tick(12_000)
    assert (cluster.election.controller_id, cluster.election.epoch) == (2, 2)


def test_without_a_timeout_one_that_is_paused_is_succeeded_the_next_time_somebody_looks(
    cluster: Cluster,
) -> None:
    cluster.election.fetch_timeout_ms = 0
    cluster.election.tick(10_000)
    assert cluster.election.controller_id == 1
    cluster.paused = {1}
    cluster.election.tick(10_000)
    assert cluster.election.controller_id == 1
    cluster.election.tick(10_000)
    assert (cluster.election.controller_id, cluster.election.epoch) == (2, 2)


def test_one_that_goes_on_in_time_stays_the_controller(cluster: Cluster) -> None:
    cluster.paused = {1}
    cluster.election.tick(10_000)
    cluster.paused = set()
    cluster.election.tick(11_000)
    cluster.paused = {1}
    cluster.election.tick(11_500)
    cluster.election.tick(13_000)
    assert cluster.election.controller_id == 1


def test_one_that_is_cut_off_decides_nothing_and_is_succeeded(cluster: Cluster) -> None:
    cluster.isolate(1)
    with pytest.raises(KafkaError, match="is cut off from most nodes") as caught:
        cluster.create("lost")
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    cluster.election.tick(0)
    cluster.election.tick(2000)
    assert cluster.election.controller_id == 2
    with pytest.raises(KafkaError, match="node 1 cannot reach node 2"):
        ControllerLink(1, cluster.election).current()
    cluster.create("t")
    assert cluster.copies.version(1) < cluster.copies.version(2)
    cluster.cut.clear()
    cluster.election.tick(3000)
    assert len(cluster.versions()) == 1
    assert set(cluster.image(1).topics) == {"t"}


def test_a_node_that_reaches_half_of_the_others_stays_the_controller(cluster: Cluster) -> None:
    cluster.lose(3)
    cluster.isolate(1)
    cluster.election.tick(0)
    cluster.election.tick(5000)
    assert cluster.election.controller_id == 1
    cluster.create("t")


def test_a_copy_that_missed_everything_is_level_when_its_node_is_back(cluster: Cluster) -> None:
    cluster.lose(3)
    cluster.create("t")
    cluster.election.move_to(2)
    cluster.create("u")
    cluster.open(3)
    cluster.election.tick(0)
    assert cluster.image(3) == cluster.controller.image


def test_what_was_decided_survives_although_only_an_old_copy_is_left(cluster: Cluster) -> None:
    cluster.lose(3)
    cluster.create("t")
    cluster.lose(2)
    cluster.lose(1)
    assert cluster.election.controller_id is None
    with pytest.raises(KafkaError, match="no node is the controller"):
        ControllerLink(3, cluster.election).current()
    cluster.open(3)
    cluster.election.tick(0)
    assert cluster.election.controller_id == 3
    assert set(cluster.image(3).topics) == {"t"}


def test_the_log_becomes_a_snapshot_while_the_cluster_runs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_log, "COMPACTION_BYTES", 5000)
    for number in range(60):
        cluster.create(f"t{number}")
    before = cluster.controller.image
    cluster.election.tick(0)
    cluster.create("later")
    for node_id in (1, 2, 3):
        assert cluster.copies[node_id].start_offset == before.offset + 1
        assert cluster.image(node_id) == cluster.controller.image


def test_a_copy_that_cannot_be_written_is_its_nodes_failure(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batch: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cluster.copies[2], "write", fail)
    cluster.create("t")
    assert cluster.failed == [2]
    assert set(cluster.image(3).topics) == {"t"}


def test_a_command_makes_only_a_fit_node_the_controller(cluster: Cluster) -> None:
    cluster.paused = {3}
    with pytest.raises(KcliError, match="node 3 does not run"):
        cluster.election.move_to(3)
    cluster.paused = set()
    cluster.isolate(2)
    with pytest.raises(KcliError, match="node 2 is cut off from most nodes"):
        cluster.election.move_to(2)
    cluster.election.move_to(3)
    assert (cluster.election.controller_id, cluster.election.epoch) == (3, 2)
    cluster.election.move_to(3)
    assert cluster.election.epoch == 2


def test_the_next_process_begins_a_higher_term_on_the_newest_copy(cluster: Cluster, tmp_path: Path) -> None:
    cluster.election.move_to(3)
    cluster.lose(2)
    cluster.create("t")
    for node_id in (1, 3):
        cluster.copies.close(node_id)
    again = Cluster(tmp_path)
    holder = again.copies.newest([1, 2, 3])
    assert holder == 1
    again.election.elect(holder)
    assert again.election.epoch == 3
    assert all(set(again.image(node_id).topics) == {"t"} for node_id in (1, 2, 3))
