"""How long a new group takes to its first record on an idle broker, beside librdkafka's own mock cluster."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
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

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = [pytest.mark.interop, pytest.mark.alone]

ROUNDS = 5
LIMIT_SECONDS = 0.1


def test_a_new_group_has_its_first_record_at_once(
    group_broker: KcliBroker | ApacheKafka, tmp_path: Path, show: Callable[[str], None]
) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.mock_cluster"]
    mock = ChildProcess(command, stderr=tmp_path / "mock.log")
    try:
        line = mock.wait_for_line(lambda line: line.startswith("ready:"), timeout=60, what="ready line")
        brokers = {"broker": group_broker.bootstrap, "mock": line.split()[1]}
        create_topic(brokers["broker"], "first", 1)
        for bootstrap in brokers.values():
            produce(bootstrap, "first", [TestRecord(0, -1, FIRST_TIMESTAMP, b"k", b"v")])
        # The mock cluster lets three seconds pass in which it does nothing.
        with ThreadPoolExecutor(1) as beside:
            mocked = beside.submit(
                first_record_seconds, brokers["mock"], "first", "mocked", from_the_beginning
            )
            prompt = median(
                first_record_seconds(brokers["broker"], "first", f"prompt-{number}", from_the_beginning)
                for number in range(ROUNDS)
            )
            default = median(
                first_record_seconds(brokers["broker"], "first", f"default-{number}", as_the_library_does)
                for number in range(ROUNDS)
            )
    finally:
        mock.kill()
    show(
        f"first record of a new group after subscribe, librdkafka: {prompt * 1000:.0f} ms, "
        f"{default * 1000:.0f} ms with the library's own pause; "
        f"from its mock cluster {mocked.result() * 1000:.0f} ms"
    )
    assert prompt < LIMIT_SECONDS
