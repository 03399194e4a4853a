"""librdkafka with jemalloc in the place of the C library's allocator, in a process of its own.

One thread of a client allocates a message, another frees it, and both want a lock of glibc's allocator for
that. With small records such a client is limited by the lock, whatever the broker, and the more so the less
its threads wait for the broker. jemalloc has no such lock.

`python -m tests.benchmarks.jemalloc produce|consume …` reads numbers of messages, one a line, and prints how
many a second it moved.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.librdkafka import Producer, consume

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

END_TIMEOUT_SECONDS = 60
KEEP_MEMORY = "dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_extent_max_active_fit:40"
"""Memory once had is kept and used again, pieces of any size: page faults are no part of the comparison."""


def find_jemalloc() -> str | None:
    """Return the name of the library, None (and a word on standard error) if it is not installed."""
    found = ctypes.util.find_library("jemalloc")
    if found is None:
        print("left out: jemalloc: install libjemalloc2", file=sys.stderr)
    return found


class JemallocClient:
    """A client in a process of its own; `move` has it produce or consume so many messages."""

    def __init__(self, library: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", __name__, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": library, "MALLOC_CONF": KEEP_MEMORY},
        )

    @classmethod
    def producer(
        cls, library: str, bootstrap: str, *, topic: str, record_bytes: int, config: Mapping[str, object]
    ) -> JemallocClient:
        """Start a producer of records of a size to a topic."""
        return cls(library, "produce", bootstrap, topic, str(record_bytes), json.dumps(config))

    @classmethod
    def consumer(cls, library: str, bootstrap: str, *, topic: str) -> JemallocClient:
        """Start what reads a topic from its beginning, each time."""
        return cls(library, "consume", bootstrap, topic)

    def move(self, count: int) -> float:
        """Return the messages per second at which `count` of them were moved."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(count, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise wire.BenchmarkFailed(f"the client ended with {self._process.wait(END_TIMEOUT_SECONDS)}")
        return float(line)

    def close(self) -> None:
        """End the process."""
        with self._process:
            try:
                self._process.communicate(timeout=END_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise


def main() -> None:
    """Do what the command line says, as often as there are lines."""
    kind, bootstrap, topic, *rest = sys.argv[1:]
    move: Callable[[int], float]
    if kind == "produce":
        record_bytes, config = rest
        producer = Producer(bootstrap, topic, wire.payloads(int(record_bytes)), json.loads(config))
        producer.send(1)

        def move(count: int) -> float:
            started = time.perf_counter()
            producer.send(count)
            return count / (time.perf_counter() - started)
    else:

        def move(count: int) -> float:
            return consume(bootstrap, topic, count, {})

    for line in sys.stdin:
        print(move(int(line)), flush=True)


if __name__ == "__main__":
    main()
