"""Topic lists and partition patterns, and the order of Java's hash maps."""

from __future__ import annotations

import pytest

from kcli.commands.shared.java import hash_map_order, partition_hash
from kcli.commands.shared.topic_filter import named_topics, parse_ids, partition_filter, select_topics
from kcli.errors import UsageError
from kcli.protocol.java import string_hash

TOPIC_CONFIGS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes
retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable
""".split()  # noqa: SIM905 - one name a line would be a page
TOPICS = ["orders", "clicks", "clicks-2", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("topic_list", "exclude_internal", "expected"),
    [
        (None, False, ["__consumer_offsets", "clicks", "clicks-2", "orders"]),
        (None, True, ["clicks", "clicks-2", "orders"]),
        ("orders", False, ["orders"]),
        ("click", False, []),
        ("clicks.*", False, ["clicks", "clicks-2"]),
        ("orders, clicks", False, ["clicks", "orders"]),
        ("'orders'", False, ["orders"]),
        (".*", True, ["clicks", "clicks-2", "orders"]),
    ],
)
def test_a_topic_list_matches_whole_names(
    topic_list: str | None, exclude_internal: bool, expected: list[str]
) -> None:
    assert select_topics(TOPICS, topic_list, exclude_internal=exclude_internal) == expected


@pytest.mark.parametrize(
    ("patterns", "accepted"),
    [
        ("a", ["a0", "a1", "a2", "a3"]),
        ("a:", ["a0", "a1", "a2", "a3"]),
        ("a:1", ["a1"]),
        ("a:1-3", ["a1", "a2"]),
        ("a:2-", ["a2", "a3"]),
        ("a:-2", ["a0", "a1"]),
        (":0", ["a0", "b0"]),
        ("b,a:0", ["a0", "b0", "b1", "b2", "b3"]),
        ("[ab]:3", ["a3", "b3"]),
    ],
)
def test_partition_patterns(patterns: str, accepted: list[str]) -> None:
    accepts = partition_filter(patterns)
    assert [f"{topic}{index}" for topic in "ab" for index in range(4) if accepts(topic, index)] == accepted


@pytest.mark.parametrize("pattern", ["a:b", "a:1:2", "a:1-2-3", "a:--1", "a:("])
def test_a_wrong_partition_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        partition_filter(pattern)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("", []),
        ("a", ["a"]),
        ("a.b,c-1,d_2", ["a.b", "c-1", "d_2"]),
        ("a:0,b:1-3,:4,a:7", ["a", "b"]),
        ("'a, b'", ["a", "b"]),
        ("a.*,b,c|d", ["b"]),
        ("(a,b)", []),
        ("a(b,c,d)", []),
        ("a{1,2},b", []),
        (r"a\d,b", []),
    ],
)
def test_plain_names(patterns: str, expected: list[str]) -> None:
    assert named_topics(patterns) == expected


def test_lists_of_numbers() -> None:
    assert parse_ids("1, 2,3", "--partitions") == [1, 2, 3]
    with pytest.raises(UsageError, match="`--partitions` needs numbers"):
        parse_ids("1,x", "--partitions")


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", 0x80000000), ("\N{HONEYBEE}", 1772416)],
)
def test_the_hash_of_a_string(text: str, code: int) -> None:
    assert string_hash(text) == code


def test_keys_are_listed_as_a_hash_map_of_java_does() -> None:
    # The order in which Apache Kafka 4.3.1 printed three configurations of a topic, and its partitions.
    shown = ("min.insync.replicas", "cleanup.policy", "retention.ms")
    assert tuple(name for name in hash_map_order(TOPIC_CONFIGS, string_hash) if name in shown) == shown
    partitions = [("g.one_x", index) for index in range(3)]
    assert hash_map_order(partitions, partition_hash) == partitions[::-1]
