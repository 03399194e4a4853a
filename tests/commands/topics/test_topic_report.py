"""`kcli topics describe` with a flag that selects partitions: topics without one are missing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.commands.fake_cluster import FakeCluster
from tests.conftest import Finished


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("--under-replicated-partitions", {"behind": [1]}),
        ("--unavailable-partitions", {"lost": [0]}),
        ("--under-min-isr-partitions", {"behind": [1], "lost": [0]}),
        ("--at-min-isr-partitions", {"behind": [0], "whole": [0, 1]}),
    ],
)
def test_json_holds_only_topics_with_a_partition_that_is_selected(
    flag: str, found: dict[str, list[int]], cluster: FakeCluster, kcli: Callable[..., Finished]
) -> None:
    cluster.add("whole", [1, 2], [2, 1], min_insync_replicas="2")
    cluster.add("behind", [1, 2], [1, 2], min_insync_replicas="2").isr = {1: [1]}
    cluster.add("lost", [7], min_insync_replicas="2")
    finished = kcli("topics", "describe", flag, "-o", "json")
    assert (finished.exit_code, finished.err) == (0, "")
    topics = json.loads(finished.out)["topics"]
    shown = {each["topic"]: [row["partition"] for row in each["partitions"]] for each in topics}
    assert shown == found


def test_json_of_no_partition_that_is_selected_has_no_topic(
    cluster: FakeCluster, kcli: Callable[..., Finished]
) -> None:
    cluster.add("whole", [1, 2])
    finished = kcli("topics", "describe", "--unavailable-partitions", "-o", "json")
    assert (finished.exit_code, json.loads(finished.out)["topics"]) == (0, [])
