"""Fixtures of the interop tests: brokers of both kinds, Apache Kafka's tools, and a place for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.kcli_broker import KcliBroker
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

TABLES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for table in config.stash.get(TABLES, []):
        terminalreporter.write_line("")
        terminalreporter.write_line(table)


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a table after the test run, whether or not output is captured."""
    return request.config.stash[TABLES].append


@pytest.fixture(scope="session")
def kafka_tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """Run one of Apache Kafka's tools: `kafka_tool("kafka-topics", "--list", …)`."""
    need("java", "javac", "mvn")
    tools = KafkaTools(tmp_path_factory.mktemp("kafka-tools"))
    yield tools
    tools.close()


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ApacheKafka]:
    """A running Apache Kafka broker, one for all tests: clean up topics you create."""
    broker = ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), kafka_tool)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def kcli_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A running kcli broker, one for all tests."""
    broker = KcliBroker(tmp_path_factory.mktemp("kcli-broker"))
    broker.start()
    yield broker
    assert broker.stop() == 0


@pytest.fixture
def new_kcli_broker(tmp_path: Path) -> Iterator[Callable[..., KcliBroker]]:
    """Make kcli brokers of a test's own, not started; each in a directory of its own."""
    brokers: list[KcliBroker] = []

    def make(
        settings: Mapping[str, str] | None = None,
        *,
        arguments: Sequence[str] = (),
        directory: Path | None = None,
    ) -> KcliBroker:
        if directory is None:
            directory = tmp_path / f"broker-{len(brokers)}"
            directory.mkdir()
        broker = KcliBroker(directory, settings=settings, arguments=arguments)
        brokers.append(broker)
        return broker

    yield make
    for broker in brokers:
        broker.close()
