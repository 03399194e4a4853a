"""One directory, two brokers: each ends the transactions that the other left, open ones and decided ones.

kcli leaves decided transactions while the fault `hold-markers` holds their markers. Apache Kafka has no such
fault: the record of the decision is written into the log of the killed broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.apache_kafka import ApacheKafka
from tests.support.producing import create_topic
from tests.support.raw_client import RawClient
from tests.support.raw_transactions import RawTransactions
from tests.support.transaction_records import append_state
from tests.support.waiting import first

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kcli.protocol.internal.coordinator_records import TransactionLogValue
    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

ONGOING, PREPARE_COMMIT, PREPARE_ABORT = 1, 2, 3
PATIENCE_SECONDS = 60.0
READ_COMMITTED = 1
SETTINGS = {"transaction.state.log.num.partitions": "1"}
DECIDED = {"PrepareCommit": PREPARE_COMMIT, "PrepareAbort": PREPARE_ABORT}


def last_stable_offset(client: RawClient, topic: str) -> int:
    """Return up to where readers of committed records may read."""
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[asked])
    return int(client.ask(request, 5).topics[0].partitions[0].offset)


def stable(client: RawClient, topic: str, offset: int) -> None:
    """Wait until readers of committed records may read up to an offset."""
    first(lambda: last_stable_offset(client, topic), lambda found: found == offset, f"{topic}: {offset}")


def leave_open(bootstrap: str, name: str) -> None:
    """Begin a transaction with one record in a topic of the same name."""
    create_topic(bootstrap, name, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce(name, b"value")
    assert producer.flush(PATIENCE_SECONDS) == 0


def decide(client: RawClient, name: str, state: str) -> None:
    """End a transaction whose markers are held."""
    raw = RawTransactions(client, name)
    found = raw.describe()
    producer = (found.producer_id, found.producer_epoch)
    assert raw.end(producer, commit=state == "PrepareCommit", version=4).code == 0
    assert raw.describe().transaction_state == state


def write_decision(node_directory: Path, name: str, state: str) -> None:
    """Append the end of an open transaction to `__transaction_state` of a broker that does not run."""

    def decide(value: TransactionLogValue) -> None:
        assert value.transaction_status == ONGOING
        value.transaction_status = DECIDED[state]

    append_state(node_directory, name, decide)


def end_transactions(bootstrap: str, prefix: str, *, marks_all: bool) -> None:
    """End what the other broker left: three transactions, named for their states.

    Apache Kafka may not do so with `marks_all`: a marker that is due while it starts may be skipped, as for a
    deleted partition, and the transaction is completed without.
    """
    with RawClient(bootstrap) as client:
        for state, end in (("PrepareCommit", "CompleteCommit"), ("PrepareAbort", "CompleteAbort")):
            raw = RawTransactions(client, f"{prefix}-{state}")
            raw.find()
            raw.settled(end)
            if marks_all:
                stable(client, raw.id, 2)
            assert raw.init_at_last().code == 0
        raw = RawTransactions(client, f"{prefix}-Ongoing")
        assert raw.settled("Ongoing").topics[0].topic == raw.id
        assert last_stable_offset(client, raw.id) == 0
        assert raw.init_at_last().code == 0  # fences the producer that is gone
        stable(client, raw.id, 2)


def test_each_broker_ends_what_the_other_left(
    new_kcli_broker: Callable[..., KcliBroker],
    kafka_tool: KafkaTools,
    kcli: Callable[..., Finished],
    tmp_path: Path,
) -> None:
    broker = new_kcli_broker(settings=SETTINGS).start()
    for state in ("Ongoing", *DECIDED):
        leave_open(broker.bootstrap, f"kcli-{state}")
    held = kcli("broker", "fault", "add", "hold-markers", "--data-dir", str(broker.data))
    assert held.exit_code == 0, held
    with RawClient(broker.bootstrap) as client:
        for state in DECIDED:
            decide(client, f"kcli-{state}", state)
    broker.kill()

    directory = tmp_path / "apache"
    directory.mkdir()
    apache = ApacheKafka(directory, kafka_tool, data=broker.node_directory)
    apache.start()
    try:
        end_transactions(apache.bootstrap, "kcli", marks_all=False)
        for state in ("Ongoing", *DECIDED):
            leave_open(apache.bootstrap, f"apache-{state}")
    finally:
        apache.kill()
    for state in DECIDED:
        write_decision(broker.node_directory, f"apache-{state}", state)
    broker.start()
    end_transactions(broker.bootstrap, "apache", marks_all=True)
