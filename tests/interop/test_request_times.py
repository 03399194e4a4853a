"""The times of requests that kcat sends: what a consumer waits for records is remote time."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.kcli_broker import KcliBroker
from tests.support.toolchain import need
from tests.support.waiting import PATIENCE_SECONDS, first

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_MS = 250


def kcli(*words: str) -> str:
    """Run kcli to its end; what it prints."""
    command = [sys.executable, "-m", "kcli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    ).stdout


@contextmanager
def idle_kcat(bootstrap: str, topic: str) -> Iterator[None]:
    """A kcat that waits at the end of a topic."""
    command = [
        "kcat",
        "-C",
        "-q",
        "-b",
        bootstrap,
        "-t",
        topic,
        "-o",
        "end",
        "-X",
        f"fetch.wait.max.ms={WAIT_MS}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def test_an_idle_kcat_waits_remotely_for_about_its_longest_wait(tmp_path: Path) -> None:
    need("kcat")
    broker = KcliBroker(tmp_path)

    def measured() -> dict[str, Any]:
        shown = kcli("broker", "requests", "--seconds", "2", "--data-dir", str(broker.data), "-o", "json")
        report = json.loads(shown)
        return {"seconds": report["seconds"], **{row["api"]: row for row in report["apis"]}}

    with closing(broker):
        broker.start()
        kcli("topics", "create", "t", "-b", broker.bootstrap)
        with idle_kcat(broker.bootstrap, "t"):
            seen = first(measured, lambda rows: "FetchConsumer" in rows, "fetches of an idle kcat")
        fetches = seen["FetchConsumer"]
        assert seen["Fetch"] == {**fetches, "api": "Fetch"}
        measured_ms = seen["seconds"] * 1000
        # A quantile is exact to 1.6 %.
        assert 0.98 * WAIT_MS <= fetches["remote_ms"]["p50"] <= 1.02 * measured_ms
        assert 0 < fetches["local_ms"]["p50"] < fetches["remote_ms"]["p50"]
        assert fetches["total_ms"]["p50"] >= fetches["remote_ms"]["p50"]
        assert 1 <= fetches["requests"] <= measured_ms / WAIT_MS + 1
        assert broker.stop() == 0
