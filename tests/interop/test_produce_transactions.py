"""`kcli produce --transactional-id`, ended in every way: Apache's console consumer sees all or nothing.

Against Apache Kafka 4.3.1 and 3.9, which has no feature `transaction.version`, and against kcli; and against
4.3.1 while the level of the feature changes.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import OLDEST, ApacheKafka
from tests.support.processes import ChildProcess
from tests.support.producing import create_topic
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Finished
    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import KafkaTools

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def apache_3_9(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ApacheKafka]:
    """Apache Kafka 3.9."""
    broker = ApacheKafka(tmp_path_factory.mktemp("apache-3.9"), kafka_tool, module=OLDEST)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(params=["apache_kafka", "apache_3_9", "kcli_broker"])
def broker(request: pytest.FixtureRequest) -> AnyBroker:
    """Each of the brokers."""
    found: AnyBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def run(
    broker: AnyBroker, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Finished]:
    """Run kcli against the broker."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)
    return kcli


def lines(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def text(values: list[str]) -> bytes:
    return "".join(f"{value}\n" for value in values).encode()


def seen(kafka_tool: KafkaTools, bootstrap: str, topic: str) -> list[str]:
    """Return what Apache's console consumer prints of what is committed, sorted."""
    finished = kafka_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--timeout-ms", "2000"),
    )
    return sorted(finished.lines)


@pytest.fixture
def stored(run: Callable[..., Finished]) -> Callable[[str], int]:
    """Return how many records a topic holds, whatever became of their transactions."""
    return lambda topic: sum(int(line.rpartition(":")[2]) for line in run("get-offsets", topic).out.split())


@pytest.fixture
def typing(
    broker: AnyBroker, stored: Callable[[str], int], tmp_path: Path
) -> Callable[[str, list[str]], ChildProcess]:
    """Start a `kcli produce` whose input stays open behind some lines; its errors go to `errors`."""

    def start(topic: str, values: list[str]) -> ChildProcess:
        before = stored(topic)
        process = ChildProcess(
            [sys.executable, "-m", "kcli", "produce", topic, "--transactional-id", topic],
            stderr=tmp_path / "errors",
            environment={"KCLI_BOOTSTRAP_SERVER": broker.bootstrap},
            on_line=lambda line: None,
        )
        for value in values:
            process.write_line(value)
        eventually(
            lambda: stored(topic) >= before + len(values),
            "the leaders have the lines",
            seen=(tmp_path / "errors").read_text,
        )
        return process

    return start


def test_an_input_is_seen_whole_or_not_at_all(
    broker: AnyBroker,
    run: Callable[..., Finished],
    typing: Callable[[str, list[str]], ChildProcess],
    kafka_tool: KafkaTools,
    tmp_path: Path,
) -> None:
    topic = "whole-or-nothing"
    create_topic(broker.bootstrap, topic, 3)
    first, second = lines("first", 100), lines("second", 20)

    assert run("produce", topic, "--transactional-id", topic, input=text(first)).exit_code == 0
    assert typing(topic, lines("interrupted", 50)).stop(signal.SIGINT) == 130
    assert "error: interrupted; the transaction was aborted" in (tmp_path / "errors").read_text()
    failed = run(
        *("produce", topic, "--transactional-id", topic, "--input-format", "json"),
        input=b'{"value":"bad 1"}\n{"value":"bad 2"}\nnonsense\n',
    )
    assert (failed.exit_code, "; the transaction was aborted" in failed.err) == (2, True)
    aborted = run("produce", topic, "--transactional-id", topic, "--abort", input=text(lines("aborted", 10)))
    assert aborted.exit_code == 0

    # One that is killed leaves its transaction open, which its successor ends.
    typing(topic, lines("killed", 50)).kill()
    listed = run("transactions", "list", "--state", "ongoing").out
    assert topic in listed
    assert run("transactions", "force-terminate", topic).exit_code == 0
    every_fifth = run(
        *("produce", topic, "--transactional-id", topic, "--transaction-records", "5", "--verbose"),
        input=text(second),
    )
    assert every_fifth.exit_code == 0
    assert every_fifth.err.count(": committed, 5 records") == 4

    assert seen(kafka_tool, broker.bootstrap, topic) == sorted(first + second)
    everything = run("consume", topic, "--from-beginning", "--until-end").out.splitlines()
    for value in (*first, *second, *lines("interrupted", 50), *lines("aborted", 10), *lines("killed", 50)):
        assert value in everything


def test_a_second_producer_of_an_id_fences_the_first(
    broker: AnyBroker,
    run: Callable[..., Finished],
    typing: Callable[[str, list[str]], ChildProcess],
    tmp_path: Path,
) -> None:
    topic = "fenced"
    create_topic(broker.bootstrap, topic)
    older = typing(topic, ["old"])
    assert run("produce", topic, "--transactional-id", topic, input=b"new\n").exit_code == 0
    assert older.process.stdin is not None
    older.process.stdin.close()
    assert older.process.wait(timeout=60) == 1
    older.kill()
    told = "another producer has taken over the transactional id; the transaction was aborted"
    assert told in (tmp_path / "errors").read_text()
    committed = run(
        "consume", topic, "--from-beginning", "--until-end", "--isolation-level", "read_committed"
    )
    assert committed.out.splitlines() == ["new"]


def test_a_transaction_that_its_producer_leaves_is_timed_out(
    broker: AnyBroker, run: Callable[..., Finished]
) -> None:
    """A timeout above the broker's limit is refused; one within it is what `describe` shows."""
    create_topic(broker.bootstrap, "timed")
    refused = run(
        *("produce", "timed", "--transactional-id", "timed", "--transaction-timeout-ms", "900001"),
        input=b"x\n",
    )
    assert (refused.exit_code, "`transaction.max.timeout.ms`" in refused.err) == (1, True)
    done = run(
        *("produce", "timed", "--transactional-id", "timed", "--transaction-timeout-ms", "54321"),
        input=b"x\n",
    )
    assert done.exit_code == 0
    described = run("transactions", "describe", "timed", "-o", "json").out
    assert '"timeout_ms": 54321' in described


def test_the_level_of_the_feature_changes_between_runs(
    tmp_path: Path, kafka_tool: KafkaTools, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level 0 an epoch serves for all transactions of a run; at level 2 each has its own."""
    broker = ApacheKafka(tmp_path, kafka_tool)
    broker.start()
    try:
        monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)
        create_topic(broker.bootstrap, "levels")
        told = {}
        for level, change in ((0, "downgrade"), (2, "upgrade")):
            features = ("--bootstrap-server", broker.bootstrap, change)
            changed = kafka_tool("kafka-features", *features, "--feature", f"transaction.version={level}")
            assert changed.code == 0, changed
            finished = kcli(
                *("produce", "levels", "--transactional-id", "levels", "--transaction-records", "1"),
                "--verbose",
                input=text(lines(str(level), 3)),
            )
            assert finished.exit_code == 0, finished
            told[level] = finished.err.splitlines()
        assert told == {
            0: [f"transaction {number}: producer id 0, epoch 0: committed, 1 record" for number in (1, 2, 3)],
            2: [
                f"transaction {number}: producer id 0, epoch {number}: committed, 1 record"
                for number in (1, 2, 3)
            ],
        }
        expected = sorted([*lines("0", 3), *lines("2", 3)])
        assert seen(kafka_tool, broker.bootstrap, "levels") == expected
    finally:
        broker.stop()
