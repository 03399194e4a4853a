"""What access control entries cost: the same requests to kcli without and with an authorizer.

The second broker has 1,000 entries, and asks for each request whether ANONYMOUS may write or read the topic.
The broker's CPU time per request is what the machine disturbs least; a ratio is the median of the rounds'.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.benchmarks import wire
from tests.benchmarks.measure import alternate_rounds, cpu_seconds, paired_ratio
from tests.benchmarks.peers import BROKER_SETTINGS
from tests.benchmarks.table import Gate, Table
from tests.support.kcli_broker import KcliBroker
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

WITHOUT, WITH = "no authorizer", "authorizer"
ENTRIES = 1_000
REQUESTS = 10_000
BATCHES, BATCH_BYTES, RECORD_BYTES = 300, 131_072, 1_000
ROUNDS = 21
MOST_COST = 1.03
GUARDED = {
    "authorizer.class.name": "standard",
    # Open until the first entry.
    "allow.everyone.if.no.acl.found": "true",
}


def run() -> list[Table]:
    """Measure both in turn."""
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as directory, ExitStack() as stack:
        brokers = {}
        for name, settings in ((WITHOUT, {}), (WITH, GUARDED)):
            own = Path(directory) / name.replace(" ", "-")
            own.mkdir()
            brokers[name] = stack.enter_context(
                closing(KcliBroker(own, settings={**BROKER_SETTINGS, **settings}).start())
            )
        with RawClient(brokers[WITH].bootstrap) as client:
            added = client.ask(CreateAclsRequest(creations=_entries()), 3)
            assert not any(each.error_code for each in added.results)
        return [_table(stack, brokers)]


def _entries() -> list[AclCreation]:
    def entry(type: int, name: str, operation: int) -> AclCreation:
        return AclCreation(
            resource_type=type, resource_name=name, resource_pattern_type=3, principal="User:ANONYMOUS",
            host="*", operation=operation, permission_type=3,
        )  # fmt: skip

    names = [f"t{number}" for number in range(ENTRIES)]
    return [*(entry(2, name, 3) for name in names), entry(2, "*", 2), entry(4, "kafka-cluster", 2)]


def _table(stack: ExitStack, brokers: dict[str, KcliBroker]) -> Table:
    table = Table("broker CPU per request, microseconds", ("", WITHOUT, WITH, f"{WITH} / {WITHOUT}"))
    single, _ = wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)
    large, count = wire.batch_of(BATCH_BYTES, RECORD_BYTES)
    for label, topic, requests in (
        ("produce, one record, one in flight", "single", partial(_one_by_one, single)),
        ("produce, 128 KB batches, 4 in flight", "large", partial(_stream, large)),
        ("fetch, 128 KB, one in flight", "large", partial(_read, len(large), count)),
    ):
        subjects = {}
        for name, broker in brokers.items():
            client = stack.enter_context(RawClient(broker.bootstrap))
            wire.make_topic(client, topic)
            subjects[name] = partial(_cost, broker, requests(client, topic))
        found = alternate_rounds(subjects, rounds=ROUNDS, warm_up=2)
        cost = paired_ratio(found[WITH], found[WITHOUT])
        table.add(label, median(found[WITHOUT]), median(found[WITH]), cost)
        table.gates.append(Gate(f"{label}: {WITH} / {WITHOUT}", cost, MOST_COST, at_least=False))
    return table


def _cost(broker: KcliBroker, do: Callable[[], int]) -> float:
    """Return the microseconds of the broker's CPU for each request."""
    before = cpu_seconds(broker.process.pid)
    requests = do()
    return (cpu_seconds(broker.process.pid) - before) / requests * 1e6


def _one_by_one(batch: bytes, client: RawClient, topic: str) -> Callable[[], int]:
    producing = wire.Producing(client, topic, batch)

    def do() -> int:
        for _ in range(REQUESTS):
            producing.one()
        return REQUESTS

    return do


def _stream(batch: bytes, client: RawClient, topic: str) -> Callable[[], int]:
    producing = wire.Producing(client, topic, batch)

    def do() -> int:
        producing.stream(BATCHES, 4)
        return BATCHES

    return do


def _read(batch_bytes: int, batch_records: int, client: RawClient, topic: str) -> Callable[[], int]:
    fetching = wire.Fetching(
        client, topic, batch_bytes=batch_bytes, batch_records=batch_records, max_bytes=batch_bytes
    )

    def do() -> int:
        fetching.read(BATCHES)
        return BATCHES

    return do
