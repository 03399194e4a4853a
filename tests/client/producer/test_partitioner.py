"""Partitioners agree with Java, librdkafka and sarama, and stickiness spreads records as Kafka's does."""

from __future__ import annotations

import random
from collections import Counter
from zlib import crc32

import pytest

from kcli.client.network.metadata import PartitionMetadata, TopicMetadata
from kcli.client.producer.partitioner import (
    Partitioner,
    crc32_partition,
    draw,
    fnv1a,
    fnv1a_partition,
    murmur2,
    murmur2_partition,
    queue_weights,
)

VECTORS = [
    (b"", 275646681, (0, 3, 1, 9), 0x00000000),
    (b"a", 584102524, (1, 4, 4, 4), 0xE8B7BE43),
    (b"ab", 316155434, (2, 2, 4, 2), 0x9E83486D),
    (b"abc", 479470107, (0, 3, 7, 3), 0x352441C2),
    (b"key-0", 29210041, (1, 1, 1, 1), 0x79EB8FEC),
    (b"foobar", 1357151166, (0, 0, 6, 6), 0x9EF61F95),
    (b"kafka", 1348980580, (1, 4, 0, 4), 0x5BBC7517),
    (b"Message_1", 1365898407, (0, 3, 7, 3), 0x21AB32D5),
    (bytes.fromhex("e6b688e681af"), 1139030878, (1, 4, 8, 10), 0x0F2B813D),
    (bytes.fromhex("00000001"), 1974369840, (0, 0, 0, 0), 0x5643EF8A),
    (bytes.fromhex("0000000000000001"), 2100486060, (0, 0, 0, 0), 0x1225EFFF),
    (b"\xff", 1836015963, (0, 3, 3, 3), 0xFF000000),
]


def topic(count: int, leaderless: tuple[int, ...] = ()) -> TopicMetadata:
    partitions = {
        index: PartitionMetadata(index, leader=-1 if index in leaderless else 1) for index in range(count)
    }
    return TopicMetadata("orders", partitions=partitions)


@pytest.mark.parametrize(("key", "masked", "partitions", "crc"), VECTORS)
def test_keys_hash_as_in_java_and_librdkafka(
    key: bytes, masked: int, partitions: tuple[int, ...], crc: int
) -> None:
    assert murmur2(key) & 0x7FFFFFFF == masked
    assert tuple(murmur2_partition(key, count) for count in (3, 6, 10, 12)) == partitions
    assert crc32(key) == crc
    assert crc32_partition(key, 7) == crc % 7


def test_signed_murmur2_of_a_negative_vector() -> None:
    assert murmur2(b"a") - 2**32 == -1563381124


def test_long_keys_hash_beyond_the_cached_word_counts() -> None:
    assert murmur2(bytes(range(256)) * 4) == 2**32 - 1290320997  # of org.apache.kafka.common.utils.Utils


def test_java_spreads_a_hundred_keys_over_six_partitions() -> None:
    counts = Counter(murmur2_partition(b"key-%d" % number, 6) for number in range(100))
    assert [counts[index] for index in range(6)] == [13, 23, 19, 13, 15, 17]


@pytest.mark.parametrize(
    ("key", "digest", "partition"), [(b"abc", 0x1A47E90B, 5), (b"hejsan", 0xE84E1D86, 2)]
)
def test_fnv1a_as_in_sarama(key: bytes, digest: int, partition: int) -> None:
    assert fnv1a(key) == digest
    assert fnv1a_partition(key, 6) == partition


def test_queue_weights_favour_short_queues() -> None:
    sums = queue_weights([0, 3, 1])
    assert sums == [4, 5, 8]
    assert [draw(sums, number) for number in range(8)] == [0, 0, 0, 0, 1, 2, 2, 2]


@pytest.mark.parametrize("sizes", [[], [3], [2, 2, 2]])
def test_equal_or_single_queues_have_no_weights(sizes: list[int]) -> None:
    assert queue_weights(sizes) is None


def test_empty_key_is_hashed_by_murmur2_and_random_for_consistent_random() -> None:
    assert {Partitioner("murmur2").partition(topic(3), b"") for _ in range(20)} == {0}
    chooser = Partitioner("consistent_random", rng=random.Random(1))
    assert {chooser.partition(topic(3), b"") for _ in range(50)} == {0, 1, 2}
    assert {chooser.partition(topic(3), b"a") for _ in range(9)} == {crc32(b"a") % 3}


def test_keyed_records_go_to_leaderless_partitions_and_keyless_ones_do_not() -> None:
    partial = topic(3, leaderless=(0, 1))
    assert Partitioner("murmur2").partition(partial, b"abc") == 0
    for name in ("murmur2", "consistent_random", "fnv1a", "sticky", "roundrobin"):
        assert Partitioner(name).partition(partial, None) == 2


def test_a_topic_without_any_leader_still_gets_a_partition() -> None:
    dead = topic(2, leaderless=(0, 1))
    for name in ("murmur2", "roundrobin"):
        assert Partitioner(name).partition(dead, None) in (0, 1)


def test_round_robin_counts_from_a_random_start() -> None:
    chooser = Partitioner("roundrobin", rng=random.Random(3))
    chosen = [chooser.partition(topic(3), b"same key") for _ in range(6)]
    assert chosen[:3] == chosen[3:]
    assert sorted(chosen[:3]) == [0, 1, 2]


def test_sticky_switches_at_batch_size_if_full_and_at_twice_that_otherwise() -> None:
    chooser = Partitioner("murmur2", batch_size=100, rng=random.Random(0))
    first = chooser.partition(topic(50), None)
    chooser.appended(topic(50), 99, lambda: True)
    assert chooser.partition(topic(50), None) == first
    chooser.appended(topic(50), 60, lambda: False)
    assert chooser.partition(topic(50), None) == first
    chooser.appended(topic(50), 1, lambda: True)
    second = chooser.partition(topic(50), None)
    assert second != first
    chooser.appended(topic(50), 200, lambda: False)
    assert chooser.partition(topic(50), None) != second


def test_adaptive_choice_follows_the_queues_once_every_partition_has_one() -> None:
    chooser = Partitioner("sticky", batch_size=1, rng=random.Random(5))
    chooser.partition(topic(3), None)
    chooser.update_loads(topic(3), {0: 0, 1: 3})
    assert chooser._state("orders").loads is None
    chooser.update_loads(topic(3), {0: 0, 1: 999, 2: 999})
    counts: Counter[int] = Counter()
    for _ in range(500):
        chooser.appended(topic(3), 1, lambda: True)
        counts[chooser.partition(topic(3), None)] += 1
    assert counts[0] > 480


def test_ignoring_keys_makes_keyed_records_sticky() -> None:
    chooser = Partitioner("murmur2", ignore_keys=True)
    assert len({chooser.partition(topic(9), b"key-%d" % number) for number in range(30)}) == 1
    assert chooser.is_free(b"key")
    assert not Partitioner("murmur2").is_free(b"key")
