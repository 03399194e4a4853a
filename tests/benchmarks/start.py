"""Process start to listening: wall time and CPU, against Apache Kafka and `import trio`.

Listening means that an ApiVersions request is answered. kcli makes and formats its directory in that time;
Apache Kafka's is formatted beforehand.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.benchmarks.measure import ROUNDS, child_cpu_seconds, cpu_seconds
from tests.benchmarks.peers import formatted_apache
from tests.benchmarks.table import Gate, Table, ratio
from tests.support.kcli_broker import KcliBroker
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from tests.support.apache_kafka import ApacheKafka
    from tests.support.processes import ChildProcess

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.002
IMPORT_TRIO = (sys.executable, "-c", "import trio")


def run() -> list[Table]:
    """Start each of them in turn."""
    results: dict[str, list[tuple[float, float]]] = {}
    imports = []
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as name:
        directory = Path(name)
        apache = _apache(directory)
        for number in range(-1, ROUNDS):
            own = directory / f"kcli-{number}"
            own.mkdir()
            kcli = KcliBroker(own)
            round_results = {"kcli, new directory": _start(kcli), "kcli, restart": _start(kcli)}
            if apache is not None:
                round_results["Apache Kafka"] = _start(apache)
            import_seconds = child_cpu_seconds(IMPORT_TRIO)
            if number >= 0:
                imports.append(import_seconds)
                for label, result in round_results.items():
                    results.setdefault(label, []).append(result)
    table = Table("start", ("", "wall s", "CPU s", "wall / kcli", "CPU / import trio"))
    wall = {label: median(result[0] for result in rows) for label, rows in results.items()}
    cpu = {label: median(result[1] for result in rows) for label, rows in results.items()}
    trio_cpu = median(imports)
    ours = wall["kcli, new directory"]
    for label in results:
        table.add(label, wall[label], cpu[label], ratio(wall[label], ours), ratio(cpu[label], trio_cpu))
    table.add("python -c 'import trio'", "-", trio_cpu, "-", 1.0)
    table.gates.append(Gate("CPU until listening / import trio", cpu["kcli, new directory"] / trio_cpu, 2))
    if apache is not None:
        table.gates.append(Gate("Apache Kafka / kcli, wall", wall["Apache Kafka"] / ours, 10, at_least=True))
    return [table]


def _apache(directory: Path) -> ApacheKafka | None:
    own = directory / "apache"
    own.mkdir()
    try:
        return formatted_apache(own, {})
    except pytest.skip.Exception as reason:
        print(f"left out: Apache Kafka: {reason}", file=sys.stderr)
        return None


def _start(broker: KcliBroker | ApacheKafka) -> tuple[float, float]:
    """Return wall and CPU seconds from the start of the process until it answers."""
    started = time.perf_counter()
    process = broker.launch()
    try:
        _wait_until_it_answers(broker.bootstrap, process)
        wall = time.perf_counter() - started
        return wall, cpu_seconds(process.pid)
    finally:
        broker.stop()


def _wait_until_it_answers(bootstrap: str, process: ChildProcess) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.is_running():
        try:
            with RawClient(bootstrap) as client:
                client.ask(ApiVersionsRequest(), 0)
                return
        except ConnectionRefusedError:
            time.sleep(POLL_SECONDS)
    raise TimeoutError(process.errors[-1000:])
