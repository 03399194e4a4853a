"""Offsets that members commit in transactions: unstable while it is open, then new, or the old ones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.commands.groups.files import GroupFiles
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.group_tool import GroupTool
from tests.support.ports import free_port
from tests.support.producing import DEADLINE_SECONDS, create_topic, produce
from tests.support.raw_client import RawClient
from tests.support.raw_member import NOT_YET
from tests.support.records import TestRecord
from tests.support.transactional_members import (
    LibrdkafkaMember,
    MemberProgram,
    ProgramMember,
    Refused,
    java,
    kafka_python,
)
from tests.support.waiting import eventually, first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker
    from tests.support.transactional_members import TransactionalMember

pytestmark = pytest.mark.interop

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


class Programs:
    """The processes of members, one for each kind, which serve one test after another."""

    def __init__(self, make_directory: Callable[[str], Path]) -> None:
        self._make_directory = make_directory
        self._running: dict[str, MemberProgram] = {}

    def member(self, kind: str, bootstrap: str, protocol: str, topic: str) -> ProgramMember:
        if kind not in self._running:
            log = self._make_directory("member") / "log"
            self._running[kind] = MemberProgram(COMMANDS[kind](), log)
        return ProgramMember(self._running[kind], bootstrap, protocol, topic)

    def close(self) -> None:
        for program in self._running.values():
            program.kill()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    found = Programs(tmp_path_factory.mktemp)
    yield found
    found.close()


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "Java 4.3.1": lambda: java("4.3"),
    "Java 2.8": lambda: java("2.8"),
    "kafka-python": kafka_python,
}

MEMBERS = {
    ("Java 4.3.1", "classic"): "CommitFailedException",
    ("Java 4.3.1", "consumer"): "CommitFailedException",
    ("Java 2.8", "classic"): "CommitFailedException",
    ("kafka-python", "classic"): "CommitFailedError",
    ("librdkafka", "classic"): "UNKNOWN_MEMBER_ID",
    ("librdkafka", "consumer"): "UNKNOWN_MEMBER_ID",
}
"""What each client says, by protocol, if the group does not know the member any more."""


class Reader:
    """Reads the offset of partition 0 of a group and topic of one name."""

    def __init__(self, client: RawClient, name: str) -> None:
        self._client = client
        self._name = name

    def offset(self, *, stable: bool) -> tuple[int, int]:
        """The offset, and the error."""
        topic = OffsetFetchRequestTopics(name=self._name, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id=self._name, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        (found,) = self._client.ask(request, 9).groups
        (row,) = found.topics[0].partitions
        return row.committed_offset, row.error_code


@pytest.mark.parametrize(("kind", "protocol"), MEMBERS)
def test_offsets_of_a_member_are_unstable_until_its_transaction_ends(
    kind: str, protocol: str, group_broker: KcliBroker | ApacheKafka, programs: Programs
) -> None:
    bootstrap = group_broker.bootstrap
    topic = f"transactional-offsets-{kind}-{protocol}".replace(" ", "-")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [TestRecord(0, -1, -1, None, b"value")] * 9)
    member: TransactionalMember
    if kind == "librdkafka":
        member = LibrdkafkaMember(bootstrap, protocol, topic)
    else:
        member = programs.member(kind, bootstrap, protocol, topic)
    with RawClient(bootstrap) as client:
        reader = Reader(client, topic)
        stored = -1
        for position, is_committed in ((2, True), (4, False), (5, True)):
            member.begin()
            member.offsets(position)
            assert (reader.offset(stable=True), reader.offset(stable=False)) == (UNSTABLE, (stored, 0))
            if is_committed:
                member.commit()
                stored = position
            else:
                member.abort()
            assert eventually_stable(reader) == stored
        member.leave()
        member.begin()
        with pytest.raises(Refused, match=MEMBERS[kind, protocol]):
            member.offsets(7)
        assert reader.offset(stable=True) == (stored, 0)
        member.abort()
        assert reader.offset(stable=True) == (stored, 0)
    member.close()


def eventually_stable(reader: Reader) -> int:
    """Return the offset once the marker is there: Apache Kafka answers the producer before."""
    offset, _ = first(lambda: reader.offset(stable=True), lambda found: found != UNSTABLE, "it is stable")
    return offset


# --- one directory, two brokers ------------------------------------------------------------------------


GROUP = TOPIC = "handed-over"


class Transactions:
    """Offsets of one group, in transactions and not; one transaction stays open, one has a late marker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        create_topic(bootstrap, TOPIC, 3)
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        self._commit(0, 1)
        self._begin("aborted", 0, 6).abort_transaction(DEADLINE_SECONDS)
        self.open = self._begin("open", 0, 5)
        late = self._begin("late", 1, 7)
        self._commit(1, 8)
        late.commit_transaction(DEADLINE_SECONDS)
        self._begin("committed", 2, 9).commit_transaction(DEADLINE_SECONDS)
        # Apache Kafka answers a producer before the markers are written.
        eventually(lambda: -1 not in list(stable_offsets(bootstrap).values())[1:], "all but one have ended")

    def _commit(self, partition: int, offset: int) -> None:
        self.consumer.commit(offsets=[TopicPartition(TOPIC, partition, offset)], asynchronous=False)

    def _begin(self, name: str, partition: int, offset: int) -> Producer:
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": f"{TOPIC}-{name}"}
        producer = Producer({**settings, "reconnect.backoff.max.ms": 200})
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        offsets = [TopicPartition(TOPIC, partition, offset)]
        producer.send_offsets_to_transaction(
            offsets, self.consumer.consumer_group_metadata(), DEADLINE_SECONDS
        )
        return producer


def stable_offsets(bootstrap: str) -> dict[int, int]:
    """The offsets of the group once its coordinator answers; -1 for those that are not stable."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1, 2])
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
    with RawClient(bootstrap) as client:
        (found,) = first(
            lambda: client.ask(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups,
            lambda groups: groups[0].error_code not in NOT_YET,
            "the coordinator has loaded its groups",
        )
    assert found.error_code == 0
    return {each.partition_index: each.committed_offset for each in found.topics[0].partitions}


def check_files(directory: Path, tool: dict[int, int]) -> None:
    """The group's files say what the original said of the group."""
    history = GroupFiles([directory]).groups()[GROUP]
    assert {place.partition: commit.offset for place, commit in history.offsets.items()} == tool


def test_a_killed_broker_knows_its_open_transactions(new_kcli_broker: Callable[..., KcliBroker]) -> None:
    broker = new_kcli_broker().start()
    transactions = Transactions(broker.bootstrap)
    broker.kill()
    broker.start()
    assert stable_offsets(broker.bootstrap) == {0: -1, 1: 8, 2: 9}
    transactions.open.commit_transaction(DEADLINE_SECONDS)
    assert stable_offsets(broker.bootstrap) == {0: 5, 1: 8, 2: 9}
    transactions.consumer.close()


def test_kcli_ends_the_open_transactions_of_apache_kafka(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    (tmp_path / "apache").mkdir()
    apache = ApacheKafka(tmp_path / "apache", kafka_tool)
    apache.start()
    try:
        transactions = Transactions(apache.bootstrap)
        assert stable_offsets(apache.bootstrap) == {0: -1, 1: 8, 2: 9}
        told = GroupTool(kafka_tool, apache.bootstrap).offsets(GROUP)
        assert told == {0: 1, 1: 8, 2: 9}
    finally:
        apache.stop()
    check_files(apache.data, told)
    broker = new_kcli_broker(arguments=["--adopt"])
    broker.port, broker.bootstrap = apache.port, apache.bootstrap
    for path in apache.data.iterdir():
        if path.name.startswith(("__consumer_offsets", "__transaction_state", TOPIC)):
            shutil.copytree(path, broker.node_directory / path.name)
    broker.start()
    assert stable_offsets(broker.bootstrap) == {0: -1, 1: 8, 2: 9}
    transactions.open.commit_transaction(DEADLINE_SECONDS)
    assert stable_offsets(broker.bootstrap) == {0: 5, 1: 8, 2: 9}
    transactions.consumer.close()


def test_apache_kafka_ends_the_open_transactions_of_kcli(
    new_kcli_broker: Callable[..., KcliBroker], kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    broker = new_kcli_broker().start()
    transactions = Transactions(broker.bootstrap)
    assert stable_offsets(broker.bootstrap) == {0: -1, 1: 8, 2: 9}
    told = GroupTool(kafka_tool, broker.bootstrap).offsets(GROUP)
    assert told == {0: 1, 1: 8, 2: 9}
    assert broker.stop() == 0
    check_files(broker.node_directory, told)
    (tmp_path / "apache").mkdir()
    # In the place of kcli, so that the producer finds it.
    controller = f"127.0.0.1:{free_port()}"
    settings = {
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{broker.bootstrap},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker.bootstrap}",
    }
    apache = ApacheKafka(tmp_path / "apache", kafka_tool, settings=settings, data=broker.node_directory)
    apache.port, apache.bootstrap = broker.port, broker.bootstrap
    apache.start()
    try:
        assert stable_offsets(apache.bootstrap) == {0: -1, 1: 8, 2: 9}
        transactions.open.commit_transaction(DEADLINE_SECONDS)
        eventually(lambda: stable_offsets(apache.bootstrap) == {0: 5, 1: 8, 2: 9}, "the marker is written")
    finally:
        apache.stop()
        transactions.consumer.close()
