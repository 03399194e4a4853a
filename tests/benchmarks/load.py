"""Produce requests of one size without end: `python -m tests.benchmarks.load BOOTSTRAP BYTES IN_FLIGHT`.

Prints `streaming` when the first is answered.
"""

from __future__ import annotations

import sys

from tests.benchmarks import wire
from tests.support.raw_client import RawClient

RECORD_BYTES = 100_000


def main(bootstrap: str, size: int, in_flight: int) -> None:
    """Send until killed."""
    batch, _ = wire.batch_of(size, RECORD_BYTES)
    topic = f"load-{size}"
    with RawClient(bootstrap, timeout=60) as client:
        wire.make_topic(client, topic)
        producing = wire.Producing(client, topic, batch)
        print("streaming", flush=True)
        producing.stream(sys.maxsize, in_flight)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
