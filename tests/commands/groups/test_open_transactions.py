"""Open transactions as the reason for lag: on a running broker, whose fault leaves one open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.conftest import Finished


def test_the_transaction_that_a_group_waits_for_is_named(
    live: Callable[..., Finished], hanging_topic: str
) -> None:
    topic = hanging_topic
    group = f"{topic}-group"
    read = live(
        *("consume", topic, "--group", group, "--from-beginning", "--until-end"),
        *("--isolation-level", "read_committed"),
    )
    assert read.out == "before\n"

    explained = live("consumer-groups", "describe", group, "--explain", "--interval", "0.1", "-o", "json")
    [described] = json.loads(explained.out)["groups"]
    [finding] = [each for each in described["findings"] if each["code"] == "open-transaction"]
    [producer] = open_producers(live, topic)
    assert f"{topic}-0: 2 records unread" in finding["message"]
    assert (
        f"waits at the last stable offset 1 for the end of a transaction of producer {producer} "
        "that is open since offset 1, last written " in finding["message"]
    )
    assert f"`kcli transactions find-hanging --topic {topic}`" in finding["hint"]

    assert live("transactions", "abort", f"{topic}:0", "--start-offset", "1").exit_code == 0
    explained = live("consumer-groups", "describe", group, "--explain", "--interval", "0.1")
    assert "open since offset" not in explained.out


def open_producers(live: Callable[..., Finished], topic: str) -> list[int]:
    described: Any = json.loads(live("transactions", "describe-producers", f"{topic}:0", "-o", "json").out)
    return [each["producer_id"] for each in described["producers"] if each["start_offset"] is not None]
