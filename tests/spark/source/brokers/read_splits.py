"""What reading a split of a scripted broker gives."""

from __future__ import annotations

from dataclasses import replace

from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.spark.source.brokers.brokers_reader import BrokersReader
from kcli.spark.source.brokers.cluster_access import ClusterAccess
from kcli.spark.split import OnCorrupt, ReadCounters, Reading, Split
from tests.spark.source.brokers.scripted_broker import TOPIC, ScriptedBroker, batch

QUICK = {"retry.backoff.ms": "1", "reconnect.backoff.ms": "1", "fetch.max.wait.ms": "1"}
IMPATIENT = {**QUICK, "default.api.timeout.ms": "3000"}
"""What goes wrong lasts, and whoever is this impatient has met it by then on a busy machine too."""
READING = Reading(columns=("offset", "value"))
SKIPPING = replace(READING, on_corrupt=OnCorrupt.SKIP)
BATCHES = [batch(base, 10) for base in range(0, 100, 10)]


def offsets(
    broker: ScriptedBroker,
    start: int = 0,
    end: int = 100,
    *,
    reading: Reading = READING,
    counters: ReadCounters | None = None,
    fail_on_data_loss: bool = True,
    properties: dict[str, str] = QUICK,
) -> list[int]:
    """Read a split and check that every value belongs to its offset."""
    reader = BrokersReader(ClusterAccess(broker.bootstrap, properties), fail_on_data_loss=fail_on_data_loss)
    found: list[int] = []
    for rows in reader.read(Split(TOPIC, 0, start, end), reading, counters or ReadCounters()):
        for row in rows.to_pylist():
            assert row["value"].rstrip(b".") == b"v%d" % row["offset"]
            found.append(row["offset"])
    return found


def honest(request: FetchRequest, truth: FetchResponse) -> FetchResponse:
    return truth
