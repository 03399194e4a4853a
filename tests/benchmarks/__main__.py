"""`python -m tests.benchmarks NAME …`: run benchmarks one after another and print their tables.

Ends with 1 when a gate is missed. Figures of one run may be compared with each other, not with those of
another run: the machine is never twice the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

NAMES = {
    "start": "process start to listening, wall time and CPU",
    "memory": "resident memory of idle brokers",
    "help": "CPU time of `kcli --help`",
    "commands": "CPU time of short commands and of a completion",
    "produce": "produce throughput, librdkafka and raw frames",
    "fetch": "fetch throughput, librdkafka, raw frames and Java's consumer",
    "latency": "round trips of single records, one in flight and many",
    "transactions": "transactions of 100 records: commits per second and their p99",
    "durable": "single records that are synced before they are acknowledged",
    "security": "TLS beside PLAINTEXT: handshakes, small requests, produce and fetch",
    "authorizer": "what access control entries cost a broker: produce and fetch with and without",
    "connections": "memory of 10,000 connections, idle and parked",
    "metadata": "Metadata of 1,000 topics with 10 partitions each",
    "ping": "what large requests of one client cost another",
    "replication": "three nodes: throughput with acks=all, memory, 1,000 partitions",
    "failover": "three nodes beside three Apache Kafka processes: acks=all, leaders killed under load",
    "groups": "heartbeats of 2,000 group members beside commits, and first records",
    "decoders": "record decoders, and reading, decoding and writing Parquet without Spark",
    "spark": "spark-export beside Spark's own Kafka connector, and beside pyarrow alone",
    "cleaner": "compaction beside Apache Kafka's cleaner, and a producer beside a compaction",
    "forensics": "dump-log and verify-index of 1 GB segments beside Apache Kafka's tool",
}


def main() -> int:
    """Run what the command line names; return the exit code."""
    listed = "\n".join(f"  {name:<12} {summary}" for name, summary in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure kcli and its peers in the same run.",
        epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="+", choices=(*NAMES, "all"), metavar="NAME", help="see below, or `all`"
    )
    names = parser.parse_args().names
    # Children must find compiled modules, as after an installation.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    missed = False
    for name in NAMES if "all" in names else names:
        for table in import_module(f"tests.benchmarks.{name}").run():
            print(table.text(), flush=True)
            missed = missed or not table.holds
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
