"""Transactions of 100 records: commits per second and the time of a commit, on one node and on three.

A raw producer sends one batch and EndTxn, in the versions of transaction version 2 (Produce 12, EndTxn 5),
and begins its next transaction with the response, so that nothing is measured but the broker; refused with
CONCURRENT_TRANSACTIONS it tries again after 20 ms, as Kafka's producer does. Eight of them take turns on one
thread. librdkafka (Python) adds what a client costs, with the requests of version 1. Three nodes of Apache
Kafka are processes of their own; all replicas are in sync, and `__transaction_state` has three, too.
"""

from __future__ import annotations

import select
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from statistics import median
from struct import Struct
from typing import TYPE_CHECKING

import confluent_kafka

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import CRC_START, crc32c
from tests.benchmarks import wire
from tests.benchmarks.clusters import create_topic, leader_of, start_apache, start_kcli, wait_until_led
from tests.benchmarks.measure import ROUNDS, alternate_rounds, paired_ratio, percentile
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table
from tests.support.kcli_cluster import NODES
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from kcli.protocol.messages.init_producer_id import InitProducerIdResponse
    from tests.benchmarks.clusters import Cluster

RECORDS = 100
RECORD_BYTES = 100
SECONDS = 1.5
INTERVAL_SECONDS = 0.05
PRODUCERS = (1, 8)
TOPIC = "transactions"
PRODUCE_VERSION, END_TXN_VERSION, INIT_VERSION, FIND_VERSION = 12, 5, 5, 2
RETRY_SECONDS = 0.02
TIMEOUT_MS = 60_000
TRANSACTION = 1

_EPOCH = Struct(">h")
_CRC = Struct(">I")
_CRC_AT = CRC_START - 4
_EPOCH_AT = 51
"""Where a batch has its checksum and the epoch of its producer."""
_END_ERROR_AT = 4 + 4 + 1 + 4
_END_EPOCH_AT = _END_ERROR_AT + 2 + 8
_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Transacting:
    """A producer that commits transaction after transaction: Produce to `leader`, EndTxn to `coordinator`."""

    def __init__(self, leader: RawClient, coordinator: RawClient, transactional_id: str) -> None:
        self.leader, self.coordinator = leader.socket, coordinator.socket
        begun = _until_known(coordinator, transactional_id)
        self._epoch = begun.producer_epoch
        batch = _batch(begun.producer_id)
        data = PartitionProduceData(index=0, records=memoryview(batch))
        produce = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        self._produce = bytearray(request_frame(produce, PRODUCE_VERSION))
        self._batch_at = self._produce.index(batch)
        self._batch_bytes = len(batch)
        end = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=True,
        )
        self._end = bytearray(request_frame(end, END_TXN_VERSION))
        # Behind the epoch come the outcome and the tagged fields.
        self._end_epoch_at = len(self._end) - 2 - _EPOCH.size
        self._error_at = 4 + 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4
        self._is_ending = False
        self._sent = 0.0
        self.commits: list[float] = []
        """The seconds that each EndTxn took."""

    @property
    def waits_for(self) -> int:
        """The descriptor of the connection that brings the next response."""
        return (self.coordinator if self._is_ending else self.leader).fileno()

    def begin(self) -> None:
        """Send the batch of a transaction."""
        at, frame = self._batch_at, self._produce
        _EPOCH.pack_into(frame, at + _EPOCH_AT, self._epoch)
        _CRC.pack_into(frame, at + _CRC_AT, crc32c(frame[at + CRC_START : at + self._batch_bytes]))
        self._is_ending = False
        self.leader.sendall(frame)

    def go_on(self) -> bool:
        """Take a response in and send the next request; return whether a transaction has ended."""
        if not self._is_ending:
            if not self._is_done(_receive(self.leader), self._error_at, "Produce"):
                self.begin()
                return False
            _EPOCH.pack_into(self._end, self._end_epoch_at, self._epoch)
            self._is_ending = True
            self._sent = time.perf_counter()
            self.coordinator.sendall(self._end)
            return False
        response = _receive(self.coordinator)
        if not self._is_done(response, _END_ERROR_AT, "EndTxn"):
            self.coordinator.sendall(self._end)
            return False
        self.commits.append(time.perf_counter() - self._sent)
        (self._epoch,) = _EPOCH.unpack_from(response, _END_EPOCH_AT)
        return True

    def _is_done(self, response: bytes, error_at: int, what: str) -> bool:
        """Return whether a request succeeded; wait a moment before it is repeated."""
        (code,) = _EPOCH.unpack_from(response, error_at)
        if code == ErrorCode.NONE:
            return True
        if code not in _RETRIABLE:
            raise wire.BenchmarkFailed(f"{what} answered with error {code}")
        time.sleep(RETRY_SECONDS)
        return False


def _until_known(coordinator: RawClient, transactional_id: str) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    deadline = time.monotonic() + wire.LEADER_TIMEOUT_SECONDS
    while (response := coordinator.ask(request, INIT_VERSION)).error_code in _RETRIABLE:
        if time.monotonic() > deadline:
            break
        time.sleep(RETRY_SECONDS)
    if response.error_code != ErrorCode.NONE:
        raise wire.BenchmarkFailed(f"InitProducerId answered with error {response.error_code}")
    return response


def _batch(producer_id: int) -> bytes:
    builder = RecordBatchBuilder(producer_id=producer_id, base_sequence=0, is_transactional=True)
    builder.producer_epoch = 0
    now_ms = time.time_ns() // 1_000_000
    values = wire.payloads(RECORD_BYTES)
    for number in range(RECORDS):
        builder.append(now_ms, None, values[number % len(values)])
    return bytes(builder.build())


def _receive(sock: socket.socket) -> bytes:
    """Return the next response, its size included."""
    have = b""
    while len(have) < 4 or len(have) < 4 + int.from_bytes(have[:4], "big"):
        data = sock.recv(65_536)
        if not data:
            raise wire.BenchmarkFailed("the connection was closed")
        have += data
    return have


def commit_together(
    producers: Sequence[Transacting], seconds: float, *, interval: float = 0.0
) -> tuple[float, float]:
    """Let producers commit for a while; return the commits per second, and the p99 of a commit in seconds.

    With an `interval` each begins its transactions so many seconds apart.
    """
    poll = select.epoll()
    by_descriptor: dict[int, Transacting] = {}
    for each in producers:
        each.commits.clear()
        for sock in {each.leader, each.coordinator}:
            poll.register(sock, select.EPOLLIN)
            by_descriptor[sock.fileno()] = each
    started = time.perf_counter()
    ends = started + seconds
    due = [(started + interval * number / len(producers), number) for number in range(len(producers))]
    numbers = {id(each): number for number, each in enumerate(producers)}
    begun = [0.0] * len(producers)
    while due or any(begun):
        while due and due[0][0] <= time.perf_counter():
            _, number = heappop(due)
            begun[number] = time.perf_counter()
            producers[number].begin()
        for descriptor, _ in poll.poll(max(due[0][0] - time.perf_counter(), 0) if due else None):
            each = by_descriptor[descriptor]
            if each.go_on():
                number = numbers[id(each)]
                following, begun[number] = begun[number] + interval, 0.0
                if following < ends and time.perf_counter() < ends:
                    heappush(due, (following, number))
    taken = time.perf_counter() - started
    poll.close()
    commits = [each for producer in producers for each in producer.commits]
    return len(commits) / taken, percentile(commits, 0.99)


def run() -> list[Table]:
    """Measure one node, then three."""
    return [*_one_node(), _three_nodes()]


def _one_node() -> list[Table]:
    with ExitStack() as stack:
        settings = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
        peers = stack.enter_context(running("kcli", "apache", settings=settings))
        rows = _Commits("one node", 2.0)
        for number in PRODUCERS:
            producers = {}
            for name, peer in peers.items():
                client = stack.enter_context(peer.connect())
                wire.make_topic(client, TOPIC)
                _find(client, "any")
                producers[name] = [
                    Transacting(stack.enter_context(peer.connect()), stack.enter_context(peer.connect()), key)
                    for key in (f"raw-{number}-{index}" for index in range(number))
                ]
            rows.measure(f"raw, {number} at a time", producers)
        clients = {name: _librdkafka(peer.bootstrap) for name, peer in peers.items()}
        return [rows.table, _client_table(clients)]


def _three_nodes() -> Table:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcli-benchmarks-")))
        clusters = {
            "kcli": start_kcli(directory / "kcli", stack, SETTINGS),
            "apache": start_apache(directory / "apache", stack, SETTINGS),
        }
        rows = _Commits("three nodes", 1.0)
        for cluster in clusters.values():
            create_topic(cluster, TOPIC)
            wait_until_led(cluster, TOPIC, in_sync=NODES)
        for number in PRODUCERS:
            producers = {
                name: [_transacting(cluster, f"raw-{number}-{index}", stack) for index in range(number)]
                for name, cluster in clusters.items()
            }
            rows.measure(f"raw, {number} at a time", producers)
        return rows.table


def _transacting(cluster: Cluster, transactional_id: str, stack: ExitStack) -> Transacting:
    bootstraps = cluster.bootstraps
    with RawClient(bootstraps[1]) as client:
        coordinator = _find(client, transactional_id)
    return Transacting(
        stack.enter_context(RawClient(bootstraps[leader_of(cluster, TOPIC)])),
        stack.enter_context(RawClient(bootstraps[coordinator])),
        transactional_id,
    )


def _find(client: RawClient, transactional_id: str) -> int:
    """Return the node of a coordinator, once there is one."""
    request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
    deadline = time.monotonic() + wire.LEADER_TIMEOUT_SECONDS
    while (found := client.ask(request, FIND_VERSION)).error_code != ErrorCode.NONE:
        if time.monotonic() > deadline:
            raise wire.BenchmarkFailed(f"FindCoordinator answered with error {found.error_code}")
        time.sleep(RETRY_SECONDS)
    node_id: int = found.node_id
    return node_id


class _Commits:
    """The table of one layout, filled row by row."""

    def __init__(self, layout: str, at_least: float) -> None:
        self._at_least = at_least
        self.table = Table(
            f"transactions of {RECORDS} records of {RECORD_BYTES} B, {layout}",
            ("", "kcli", "apache", "times better"),
        )

    def measure(self, label: str, producers: Mapping[str, Sequence[Transacting]]) -> None:
        """Measure commits at full speed, and the time of a commit then and at an equal, lower rate."""
        busy: dict[str, list[float]] = {name: [] for name in producers}
        calm: dict[str, list[float]] = {name: [] for name in producers}
        rates = alternate_rounds(
            {name: partial(_rate, each, 0.0, busy[name]) for name, each in producers.items()}
        )
        alternate_rounds(
            {name: partial(_rate, each, INTERVAL_SECONDS, calm[name]) for name, each in producers.items()}
        )
        rate = self._add(f"{label}: commits/s", rates, 1)
        delay = self._add(f"{label}: p99 of a commit, ms, {1 / INTERVAL_SECONDS:.0f}/s each", calm, -1)
        self._add(f"{label}: the same at full speed", busy, -1)
        if "apache" in producers:
            self.table.gates += [
                Gate(f"{label}: commits/s, kcli / apache", rate, self._at_least, at_least=True),
                Gate(f"{label}: p99, apache / kcli", delay, self._at_least, at_least=True),
            ]

    def _add(self, label: str, found: Mapping[str, list[float]], sign: int) -> float:
        """Add a row of rates (sign 1) or of seconds (-1); return how many times better kcli is."""
        rounds = {name: values[-ROUNDS:] for name, values in found.items()}
        ours, theirs = rounds["kcli"], rounds.get("apache", [])
        better = paired_ratio(ours, theirs) if sign > 0 else paired_ratio(theirs or [0.0], ours)
        scale = 1 if sign > 0 else 1000
        self.table.add(
            label, *(scale * median(values) if values else "-" for values in (ours, theirs)), better
        )
        return better


def _rate(producers: Sequence[Transacting], interval: float, delays: list[float]) -> float:
    rate, delay = commit_together(producers, SECONDS, interval=interval)
    delays.append(delay)
    return rate


def _librdkafka(bootstrap: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "librdkafka"})
    producer.init_transactions(30)
    return producer


def _client_table(clients: Mapping[str, confluent_kafka.Producer]) -> Table:
    values = wire.payloads(RECORD_BYTES)
    found = alternate_rounds({name: partial(_commits, each, values) for name, each in clients.items()})
    ratio = paired_ratio(found["kcli"], found.get("apache", []))
    table = Table("transactions with librdkafka (Python), commits/s", ("", *found, "kcli / apache"))
    table.add(f"{RECORDS} records", *(median(each) for each in found.values()), ratio)
    return table


def _commits(producer: confluent_kafka.Producer, values: Sequence[bytes]) -> float:
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < SECONDS:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(TOPIC, values[number % len(values)], partition=0)
        producer.commit_transaction(30)
        count += 1
    return count / (time.perf_counter() - started)


SETTINGS = {"min.insync.replicas": "2"}
