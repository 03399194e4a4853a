"""librdkafka's mock cluster in a process of its own: `python -m tests.benchmarks.mock_cluster`.

It answers like a broker from memory, written in C: it neither checks checksums nor writes files, and keeps
the last 5 MB of each partition.
"""

from __future__ import annotations

import signal

from tests.benchmarks.librdkafka import PRODUCER, Handle, lib

if __name__ == "__main__":
    handle = Handle(PRODUCER, {"log_level": 0})
    cluster = lib.rd_kafka_mock_cluster_new(handle.pointer, 1)
    print("ready:", lib.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    signal.pause()
