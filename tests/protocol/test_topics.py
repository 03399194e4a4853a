"""The partition of a group: Kafka's own numbers."""

from __future__ import annotations

import pytest

from kcli.protocol.topics import partition_for


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("", 0),
        ("g", 3),
        ("g1", 42),
        ("test", 48),
        ("my-group", 12),
        ("test-group", 12),
        ("group1", 40),
        ("DemoGroup", 40),
        ("polygenelubricants", 0),  # the hash is -2147483648, which has no positive counterpart
        ("\N{GRINNING FACE}", 49),  # two UTF-16 units: 0xd83d * 31 + 0xde00
    ],
)
def test_a_group_has_the_partition_that_kafka_gives_it(name: str, partition: int) -> None:
    assert partition_for(name, 50) == partition


def test_one_partition_holds_every_group() -> None:
    assert {partition_for(f"group-{number}", 1) for number in range(100)} == {0}
