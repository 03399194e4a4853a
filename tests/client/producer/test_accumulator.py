"""The accumulator: which batches are ready, in what order they leave and come back, and their numbers."""

from __future__ import annotations

from typing import Any

from kcli.client.config import ProducerConfig
from kcli.client.network.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from kcli.client.producer.accumulator import Accumulator, MemoryBudget
from kcli.client.producer.sequences import Sequences


def one_node(partitions: int) -> ClusterMetadata:
    entries = {index: PartitionMetadata(index, leader=1) for index in range(partitions)}
    return ClusterMetadata(
        {1: Node(1, "one", 9092)}, topics={"orders": TopicMetadata("orders", partitions=entries)}
    )


def test_draining_takes_turns_over_a_hundred_partitions() -> None:
    cluster = one_node(100)
    accumulator = Accumulator(ProducerConfig(batch_size=100, linger_ms=0), MemoryBudget(10**9))
    for _ in range(3):
        for partition in range(100):
            accumulator.open_batch("orders", partition, 0.0, 0).append(0, None, bytes(50), ())
    served: list[int] = []
    while accumulator.ready(cluster, 1.0).nodes:
        served += [batch.partition.partition for batch in accumulator.drain(1, cluster, 300, 1.0)]
    for start in range(0, 300, 100):
        assert sorted(served[start : start + 100]) == list(range(100))


def test_one_batch_per_partition_and_the_first_whatever_its_size() -> None:
    cluster = one_node(2)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    for partition in (0, 0, 1):
        accumulator.open_batch("orders", partition, 0.0, 0).append(0, None, bytes(5000), ())
    assert len(accumulator.drain(1, cluster, 10, 1.0)) == 1
    assert len(accumulator.drain(1, cluster, 10**6, 1.0)) == 2


def test_a_batch_waits_its_linger_unless_something_wants_it_out() -> None:
    cluster = one_node(1)
    budget = MemoryBudget(100)
    accumulator = Accumulator(ProducerConfig(linger_ms=500), budget)
    accumulator.open_batch("orders", 0, 10.0, 0).append(0, None, b"v", ())
    check = accumulator.ready(cluster, 10.2)
    assert (check.nodes, check.next_check) == (set(), 10.5)
    assert accumulator.ready(cluster, 10.5).nodes == {1}
    accumulator.flushing = 1
    assert accumulator.ready(cluster, 10.2).nodes == {1}


def test_a_batch_sent_again_waits_its_backoff_unless_the_leader_is_new() -> None:
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    batch = accumulator.open_batch("orders", 0, 0.0, 0)
    batch.append(0, None, b"v", ())
    accumulator.flushing = 1
    batch.attempts, batch.retry_at, batch.leader_epoch = 1, 5.0, 3

    def at_epoch(epoch: int) -> ClusterMetadata:
        entry = PartitionMetadata(0, leader=1, leader_epoch=epoch)
        topic = TopicMetadata("orders", partitions={0: entry})
        return ClusterMetadata({1: Node(1, "one", 9092)}, topics={"orders": topic})

    assert accumulator.ready(at_epoch(3), 4.0).next_check == 5.0
    assert accumulator.ready(at_epoch(4), 4.0).nodes == {1}
    assert accumulator.ready(at_epoch(3), 5.0).nodes == {1}


def test_batches_come_back_in_the_order_of_their_first_draining() -> None:
    cluster = one_node(1)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    for number in range(4):
        accumulator.open_batch("orders", 0, 0.0, 0).append(0, None, b"%d" % number, ())
    drained = [accumulator.drain(1, cluster, 10**6, 1.0)[0] for _ in range(3)]
    for batch in (drained[1], drained[2], drained[0]):
        accumulator.put_back(batch)
    queue = list(accumulator.topics["orders"][0])
    assert queue[:3] == drained
    assert queue[3].drain_number == -1


def test_sequence_numbers_wrap_and_the_last_epoch_takes_a_new_producer_id() -> None:
    cluster = one_node(1)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    sequences = Sequences()
    sequences.adopt(1000, 32767)
    accumulator.may_drain, accumulator.on_drain = sequences.may_drain, sequences.number

    def drain() -> Any:
        batch = accumulator.open_batch("orders", 0, 0.0, 0)
        batch.append(0, None, b"v", ())
        batch.append(0, None, b"w", ())
        return accumulator.drain(1, cluster, 10**6, 1.0)

    (first,) = drain()
    assert drain() == []  # the broker does not know the producer yet
    sequences.succeeded(first)
    sequences.came_back(first)
    (first,) = accumulator.drain(1, cluster, 10**6, 1.0)
    state = sequences._partitions[first.partition]
    state.next_sequence = 2**31 - 1
    (second,) = drain()
    assert (second.base_sequence, state.next_sequence) == (2**31 - 1, 1)
    for batch in (first, second):
        sequences.failed(batch)
        sequences.came_back(batch)
    assert sequences.last_epoch_is_used
    assert drain() == []
    sequences.adopt(2000, 0)
    (third,) = accumulator.drain(1, cluster, 10**6, 1.0)
    assert (third.producer_id, third.producer_epoch, third.base_sequence) == (2000, 0, 0)
