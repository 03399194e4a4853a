"""`kcli transactions` against Apache Kafka and kcli: the lines of kafka-transactions.sh, and its effects."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import trio
from confluent_kafka import Producer

from kcli.client.client import connect
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from tests.support.producing import DEADLINE_SECONDS, create_topic, delete_topic
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Finished
    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import KafkaTools, ToolResult
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

TOPIC = "transactions-tool"
HOUR_MS = 3_600_000
DURATION = r"(\d+ *)(\t[^\t]*\t)$"
"""The duration in a line of `describe`, and what follows."""

Ours = Callable[..., "Finished"]
Theirs = Callable[..., "ToolResult"]


@pytest.fixture
def ours(broker: AnyBroker, kcli: Ours, monkeypatch: pytest.MonkeyPatch) -> Ours:
    """Run `kcli transactions` against the broker."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)
    return lambda *arguments: kcli("transactions", *arguments)


@pytest.fixture
def theirs(broker: AnyBroker, kafka_tool: KafkaTools) -> Theirs:
    """Run kafka-transactions.sh against the broker."""
    return lambda *arguments: kafka_tool(
        "kafka-transactions", "--bootstrap-server", broker.bootstrap, *arguments
    )


@pytest.fixture
def held(broker: AnyBroker) -> Iterator[None]:
    """A transaction over three partitions that is open, and an id whose last one was committed."""
    create_topic(broker.bootstrap, TOPIC, 3)
    producers = []
    for name, is_open in (("tool-done", False), ("tool-open", True)):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(TOPIC, b"value", partition=partition)
        producer.flush(DEADLINE_SECONDS)
        if not is_open:
            producer.commit_transaction(DEADLINE_SECONDS)
        producers.append(producer)
    yield
    producers[-1].abort_transaction(DEADLINE_SECONDS)
    delete_topic(broker.bootstrap, TOPIC)


def test_what_is_open_is_shown_as_in_the_original(ours: Ours, theirs: Theirs, held: None) -> None:
    for arguments in (
        ["list"],
        ["list", "--duration-filter", "0"],
        ["list", "--transactional-id-pattern", "tool-.*"],
    ):
        # Kafka's tool lists them as brokers and hash tables do, kcli by their ids.
        assert sorted(ours(*arguments).out.splitlines()) == sorted(theirs(*arguments).lines), arguments
    for name in ("tool-open", "tool-done"):
        shown = [
            ours("describe", name).out.splitlines(),
            theirs("describe", "--transactional-id", name).lines,
        ]
        first, second = ([re.sub(DURATION, r"\2", line) for line in lines] for lines in shown)
        assert first == second
    assert all(f"{TOPIC}-{number}" in ours("describe", "tool-open").out for number in range(3))
    for partition in range(3):
        asked = ("--topic", TOPIC, "--partition", str(partition))
        told = ours("describe-producers", f"{TOPIC}:{partition}").out.splitlines()
        assert told == theirs("describe-producers", *asked).lines
        assert told == theirs("describe-producers", *asked, "--broker-id", "1").lines
        assert told == ours("describe-producers", *asked, "--broker-id", "1").out.splitlines()
        assert len(told) == 3


@pytest.mark.parametrize(
    ("our_arguments", "their_arguments"),
    [
        (["describe", "nobody"], ["describe", "--transactional-id", "nobody"]),
        (["list", "--transactional-id-pattern", "(("], ["list", "--transactional-id-pattern", "(("]),
        (["abort", f"{TOPIC}:0"], ["abort", "--topic", TOPIC, "--partition", "0"]),
        (["find-hanging"], ["find-hanging"]),
    ],
    ids=str,
)
def test_what_fails_in_the_original_fails(
    our_arguments: list[str], their_arguments: list[str], ours: Ours, theirs: Theirs
) -> None:
    failed = ours(*our_arguments)
    assert (failed.exit_code != 0, failed.out) == (True, "")
    assert theirs(*their_arguments).code == 1


@pytest.fixture
def unverified(broker: AnyBroker, kcli: Ours) -> Iterator[None]:
    """Leaders that take the data of a transaction that no coordinator knows, as those before 3.6 did."""
    name = "transaction.partition.verification.enable"
    alter = ("configs", "alter", "--broker", "1", "--bootstrap-server", broker.bootstrap)
    assert kcli(*alter, "--add", f"{name}=false").exit_code == 0
    yield
    assert kcli(*alter, "--delete", name).exit_code == 0


async def hang(bootstrap: str, partition: int, producer_id: int) -> int:
    """Write an hour ago in a transaction that no coordinator knows; return the error code."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    builder.append(int(time.time() * 1000) - HOUR_MS, None, b"hanging", ())
    data = PartitionProduceData(index=partition, records=builder.build())
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    async with connect(bootstrap) as client:
        response: ProduceResponse = await client.request(1, request, max_version=11)
    return response.responses[0].partition_responses[0].error_code


def test_hanging_transactions_are_found_and_aborted_as_by_the_original(
    broker: AnyBroker, ours: Ours, theirs: Theirs, held: None, unverified: None
) -> None:
    eventually(
        lambda: trio.run(hang, broker.bootstrap, 0, 7_000_001) in (0, 46), "verification is switched off"
    )
    assert trio.run(hang, broker.bootstrap, 1, 7_000_002) == 0

    for where in (["--topic", TOPIC], ["--broker-id", "1"]):
        found = ours("find-hanging", *where)
        assert found.exit_code == 3
        assert sorted(found.out.splitlines()) == sorted(theirs("find-hanging", *where).lines)
        assert len(found.out.splitlines()) == 3
    one = ours("find-hanging", "--topic", TOPIC, "--partition", "1").out.splitlines()
    assert one == theirs("find-hanging", "--topic", TOPIC, "--partition", "1").lines
    start = dict(zip(one[0].split("\t"), map(str.strip, one[1].split("\t")), strict=True))["StartOffset"]

    assert ours("abort", f"{TOPIC}:1", "--start-offset", start).out == ""
    owner = ("--producer-id", "7000001", "--producer-epoch", "3", "--coordinator-epoch", "-1")
    done = theirs("abort", "--topic", TOPIC, "--partition", "0", *owner)
    assert done.code == 0, done
    nothing = ours("find-hanging", "--topic", TOPIC)
    assert nothing.exit_code == 0
    assert nothing.out.splitlines() == theirs("find-hanging", "--topic", TOPIC).lines
    again = ours("abort", f"{TOPIC}:1", "--start-offset", start)
    assert (again.exit_code, f"begins at offset {start}" in again.err) == (1, True)


def test_a_fault_hangs_a_transaction_until_the_original_aborts_it(
    kcli_broker: KcliBroker, kafka_tool: KafkaTools, kcli: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator has it done. Readers of what is committed see nothing behind it until it is aborted."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", kcli_broker.bootstrap)
    create_topic(kcli_broker.bootstrap, TOPIC)
    where = ("--topic", TOPIC, "--next", "1", "--data-dir", str(kcli_broker.data))
    assert kcli("broker", "fault", "add", "hang-transactions", *where).exit_code == 0
    for name in ("hung", "fine"):
        produced = kcli("produce", TOPIC, "--transactional-id", f"tool-{name}", input=f"{name}\n".encode())
        assert produced.exit_code == 0
    assert kcli("transactions", "describe", "tool-hung", "-o", "json").out.count("CompleteCommit") == 1

    committed = ("consume", TOPIC, "--from-beginning", "--until-end", "--isolation-level", "read_committed")
    assert kcli(*committed).out == ""
    tool = ("kafka-transactions", "--bootstrap-server", kcli_broker.bootstrap)
    found = kafka_tool(*tool, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")
    assert [line.split("\t")[5].strip() for line in found.lines] == ["StartOffset", "0"]
    place = ("--topic", TOPIC, "--partition", "0", "--start-offset", "0")
    assert kafka_tool(*tool, "abort", *place).code == 0
    assert kcli(*committed).out == "fine\n"
    delete_topic(kcli_broker.bootstrap, TOPIC)


def test_a_transaction_that_is_alive_is_terminated(broker: AnyBroker, ours: Ours, theirs: Theirs) -> None:
    """Each of both tools fences the producer, whose next call fails."""
    create_topic(broker.bootstrap, TOPIC)
    for terminate in (
        lambda: ours("force-terminate", "tool-alive").exit_code,
        lambda: theirs("forceTerminateTransaction", "--transactionalId", "tool-alive").code,
    ):
        settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "tool-alive"}
        producer = Producer(settings)
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        producer.produce(TOPIC, b"value")
        producer.flush(DEADLINE_SECONDS)
        assert terminate() == 0
        with pytest.raises(Exception, match="FENCED"):
            producer.commit_transaction(DEADLINE_SECONDS)
        assert "tool-alive" not in ours("list", "--state", "ongoing").out
    delete_topic(broker.bootstrap, TOPIC)
