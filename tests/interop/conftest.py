"""Fixtures of the interop tests: brokers of both kinds, and Apache Kafka's tools.

`KCLI_GROUP_BROKERS=apache,kcli` runs the tests of consumer groups against the original too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.forensic_corpus import Corpus, forensic_corpus
from tests.support.group_members import MemberPrograms, Members
from tests.support.group_tool import GroupTool
from tests.support.guarded_brokers import GuardedApache, GuardedKcli
from tests.support.kcli_broker import KcliBroker
from tests.support.reassigning import Sides
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.conftest import Finished

    AnyBroker: TypeAlias = KcliBroker | ApacheKafka

GROUP_BROKERS = os.environ.get("KCLI_GROUP_BROKERS", "kcli").split(",")
GROUP_SETTINGS = {
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.min.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
"""Of both kinds of broker, which set the pace of a group of the new protocol.

Members may fall silent for as long as a busy machine keeps them waiting, unless a test asks for less.
librdkafka takes a heartbeat for lost that is not answered before the next one is due, and never asks again
for the partitions that were in the answer: the interval is what a broker may pause.
"""
TRANSACTION_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
BROKER_SETTINGS = {**GROUP_SETTINGS, **TRANSACTION_SETTINGS}
APACHE_SETTINGS = {**BROKER_SETTINGS, "group.consumer.heartbeat.interval.ms": "2000"}


@pytest.fixture(scope="session")
def kafka_tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """Run one of Apache Kafka's tools: `kafka_tool("kafka-topics", "--list", …)`."""
    need("java", "javac", "mvn")
    tools = KafkaTools(tmp_path_factory.mktemp("kafka-tools"))
    yield tools
    tools.close()


@pytest.fixture(scope="session")
def corpus(kafka_tool: KafkaTools) -> Corpus:
    """Log directories that Apache Kafka wrote, to be read only."""
    return forensic_corpus(kafka_tool)


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools) -> Iterator[ApacheKafka]:
    """A running Apache Kafka broker, one for all tests: clean up topics you create."""
    broker = ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), kafka_tool, settings=APACHE_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def guarded_apache(
    tmp_path_factory: pytest.TempPathFactory, kafka_tool: KafkaTools
) -> Iterator[GuardedApache]:
    """A running Apache Kafka broker with TLS, logins and an authorizer, one for all tests."""
    need("keytool")
    broker = GuardedApache(tmp_path_factory.mktemp("guarded-apache"), kafka_tool, settings=APACHE_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def guarded_kcli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKcli]:
    """A running kcli broker with TLS, logins and an authorizer, one for all tests."""
    need("keytool")
    broker = GuardedKcli(tmp_path_factory.mktemp("guarded-kcli"))
    broker.start()
    yield broker
    assert broker.stop() == 0


@pytest.fixture(scope="session")
def kcli_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A running kcli broker, one for all tests."""
    broker = KcliBroker(tmp_path_factory.mktemp("kcli-broker"), settings=BROKER_SETTINGS)
    broker.start()
    yield broker
    assert broker.stop() == 0


@pytest.fixture(params=["apache_kafka", "kcli_broker"])
def broker(request: pytest.FixtureRequest) -> AnyBroker:
    """Each of the two brokers."""
    found: AnyBroker = request.getfixturevalue(request.param)
    return found


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


@pytest.fixture(scope="session")
def member_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberPrograms]:
    """Group members of every client, kept between tests."""
    programs = MemberPrograms(tmp_path_factory.mktemp("members"))
    yield programs
    programs.close()


@pytest.fixture
def members(member_programs: MemberPrograms) -> Iterator[Members]:
    """The group members of one test; they leave at its end."""
    found = Members(member_programs)
    yield found
    found.close()


@pytest.fixture(scope="session", params=GROUP_BROKERS)
def group_broker(request: pytest.FixtureRequest) -> KcliBroker | ApacheKafka:
    """A running broker of each kind that is asked for, one for all tests: groups have names of their own."""
    found: KcliBroker | ApacheKafka = request.getfixturevalue(
        {"kcli": "kcli_broker", "apache": "apache_kafka"}[request.param]
    )
    return found


@pytest.fixture(params=GROUP_BROKERS)
def own_group_broker(
    request: pytest.FixtureRequest, tmp_path: Path, kafka_tool: KafkaTools
) -> Iterator[KcliBroker | ApacheKafka]:
    """A running broker of the test's own, to be stopped, killed and started again."""
    broker = (
        KcliBroker(tmp_path, settings=GROUP_SETTINGS)
        if request.param == "kcli"
        else ApacheKafka(tmp_path, kafka_tool, settings=APACHE_SETTINGS)
    )
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def end_broker(own_group_broker: KcliBroker | ApacheKafka) -> Callable[[str], None]:
    """Stop the test's own broker, `clean` or `killed`."""

    def end(how: str) -> None:
        if how == "clean":
            own_group_broker.stop()
        elif isinstance(own_group_broker, ApacheKafka):
            pytest.skip("Apache Kafka on one node forgets members and offsets when it is killed")
        else:
            own_group_broker.kill()

    return end


@pytest.fixture
def group_tool(kafka_tool: KafkaTools, group_broker: KcliBroker | ApacheKafka) -> GroupTool:
    """Apache Kafka's kafka-consumer-groups against the broker."""
    return GroupTool(kafka_tool, group_broker.bootstrap)


@pytest.fixture
def sides(
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
    moving_brokers: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Sides]:
    """Moves by both tools, in an empty directory; topics named `moved…` are deleted afterwards."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", moving_brokers)
    monkeypatch.chdir(tmp_path)
    both = Sides(kcli, kafka_tool, moving_brokers)
    yield both
    both.theirs("kafka-topics", "--delete", "--if-exists", "--topic", "moved.*")
