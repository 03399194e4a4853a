"""How long a new group takes to its first record on an idle broker, beside librdkafka's own mock cluster."""

from __future__ import annotations

import sys
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.support.first_record import as_the_library_does, first_record_seconds, from_the_beginning
from tests.support.processes import ChildProcess
from tests.support.producing import create_topic, produce
from tests.support.records import FIRST_TIMESTAMP, TestRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from confluent_kafka import Consumer, TopicPartition

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

ROUNDS = 5
LIMIT_SECONDS = 0.1
RECORD = TestRecord(0, -1, FIRST_TIMESTAMP, b"k", b"v")


@pytest.mark.alone
def test_a_new_group_has_its_first_record_at_once(
    group_broker: KcliBroker | ApacheKafka, show: Callable[[str], None]
) -> None:
    fill(group_broker.bootstrap, "prompt")
    prompt = median_seconds(group_broker.bootstrap, "prompt", from_the_beginning)
    show(f"first record of a new group after subscribe, librdkafka: {prompt * 1000:.0f} ms")
    assert prompt < LIMIT_SECONDS


def test_a_new_group_waits_for_the_library_alone(
    group_broker: KcliBroker | ApacheKafka, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """The mock cluster lets three seconds pass in which it does nothing."""
    command = [sys.executable, "-m", "tests.benchmarks.mock_cluster"]
    mock = ChildProcess(command, stderr=tmp_path / "mock.log")
    try:
        line = mock.wait_for_line(lambda line: line.startswith("ready:"), timeout=60, what="ready line")
        mocked_bootstrap = line.split()[1]
        fill(group_broker.bootstrap, "unprompted")
        produce(mocked_bootstrap, "unprompted", [RECORD])
        default = median_seconds(group_broker.bootstrap, "unprompted", as_the_library_does)
        mocked = first_record_seconds(mocked_bootstrap, "unprompted", "mocked", from_the_beginning)
    finally:
        mock.kill()
    show(
        f"first record of a new group with the library's own pause: {default * 1000:.0f} ms; "
        f"without it from its mock cluster {mocked * 1000:.0f} ms"
    )
    assert default < mocked


def fill(bootstrap: str, topic: str) -> None:
    """Create a topic of one record."""
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [RECORD])


def median_seconds(
    bootstrap: str, topic: str, on_assign: Callable[[Consumer, list[TopicPartition]], None]
) -> float:
    """Of several new groups, one after another."""
    return median(
        first_record_seconds(bootstrap, topic, f"{topic}-{number}", on_assign) for number in range(ROUNDS)
    )
