"""Commits at a steady rate: `python -m tests.benchmarks.committing BOOTSTRAP TOPIC PER_SECOND SECONDS`.

Each of a few librdkafka consumers has a group of its own and commits one partition, waiting for the answer.
Prints a JSON object: `per_second` achieved, `p50` and `p99` in milliseconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import Consumer, TopicPartition

from tests.benchmarks.measure import percentile

CONSUMERS = 16
WARM_UP_COMMITS = 20


def commit_steadily(bootstrap: str, topic: str, number: int, rate: float, seconds: float) -> list[float]:
    """Commit again and again; return how many milliseconds each commit took."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"commits-{number}"})
    for offset in range(WARM_UP_COMMITS):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    times = []
    started = time.perf_counter()
    for count in range(int(rate * seconds)):
        # Not all at the same moment.
        due = started + (count + number / CONSUMERS) / rate
        if (ahead := due - time.perf_counter()) > 0:
            time.sleep(ahead)
        before = time.perf_counter()
        if before > started + seconds:
            break
        consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
        times.append((time.perf_counter() - before) * 1000)
    consumer.close()
    return times


def main(bootstrap: str, topic: str, per_second: float, seconds: float) -> None:
    """Commit from as many threads as there are consumers."""
    results: list[list[float]] = [[] for _ in range(CONSUMERS)]

    def run(number: int) -> None:
        results[number] = commit_steadily(bootstrap, topic, number, per_second / CONSUMERS, seconds)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [each for result in results for each in result]
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    print(json.dumps({"per_second": len(times) / seconds, "p50": p50, "p99": p99}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
