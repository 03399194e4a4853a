"""Our source of records beside Spark's own: from the same options the same rows or both an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.producing import create_topic, end_offsets
from tests.support.toolchain import INTEROP, java_libraries, need
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_SECONDS = 400
ANSWER_SECONDS = 120
PARTITIONS = 3
START_MS = 1_700_000_000_000
STEP_MS = 1000
KEPT = {"retention.ms": "-1"}
"""The records look old, and a broker would delete them while they are read."""
NEVER_MS = 4_000_000_000_000
"""Later than any record, and than the markers of transactions, which have the time of day."""


@pytest.fixture(scope="module")
def topic(apache_kafka: ApacheKafka) -> str:
    """Records of every kind: keys, values and headers or none, transactions committed, aborted and open."""
    name = f"spark-{uuid.uuid4().hex[:8]}"
    create_topic(apache_kafka.bootstrap, name, PARTITIONS, KEPT)
    create_topic(apache_kafka.bootstrap, f"{name}-empty", 1)
    plain = Producer({"bootstrap.servers": apache_kafka.bootstrap, "compression.type": "lz4", "linger.ms": 5})
    write(plain, name, range(40))
    create_topic(apache_kafka.bootstrap, f"{name}-cut", 1, KEPT)
    for number in range(50):
        plain.produce(f"{name}-cut", f"value {number}", timestamp=START_MS)
    assert plain.flush(ANSWER_SECONDS) == 0
    admin = AdminClient({"bootstrap.servers": apache_kafka.bootstrap})
    cut = TopicPartition(f"{name}-cut", 0, 20)
    admin.delete_records([cut])[cut].result(ANSWER_SECONDS)
    for number, commit in enumerate((True, False)):
        producer = Producer(
            {"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": f"{name}-{number}"}
        )
        producer.init_transactions()
        producer.begin_transaction()
        write(producer, name, range(40 * (number + 1), 40 * (number + 2)))
        if commit:
            producer.commit_transaction()
        else:
            assert producer.flush(ANSWER_SECONDS) == 0
            producer.abort_transaction()
    # Who ends a transaction is answered before its markers are written: they end each partition.
    whole = dict.fromkeys(range(PARTITIONS), (0, 3 * 40 + 2))
    eventually(lambda: end_offsets(apache_kafka.bootstrap, name) == whole, "the markers")
    return name


def write(producer: Producer, topic: str, numbers: range) -> None:
    """Write records of these numbers into every partition."""
    for number in numbers:
        for partition in range(PARTITIONS):
            producer.produce(
                topic,
                key=None if number % 5 == 0 else f"key {number}",
                value=None if number % 7 == 0 else f"value {number} of {partition}",
                partition=partition,
                timestamp=START_MS + number * STEP_MS,
                headers=[("twice", b"1"), ("twice", None), ("ü", b"\xff")] if number % 3 == 0 else None,
            )


@pytest.fixture(scope="module")
def told(apache_kafka: ApacheKafka, topic: str) -> dict[str, dict[str, Any]]:
    """What both sources gave in every case; one Spark session reads them all."""
    need("java", "mvn")
    # Where a partition ends in a marker, the connector waits for a record behind it.
    everywhere = {"kafka.bootstrap.servers": apache_kafka.bootstrap, "kafka.fetch.max.wait.ms": "20"}
    lines = "".join(
        json.dumps({"name": name, "options": {**everywhere, **options}}) + "\n"
        for name, options in {**error_cases(topic), **rows_cases(topic)}.items()
    )
    done = subprocess.run(
        [sys.executable, INTEROP / "python" / "compare_sources.py", java_libraries() / "spark-connector"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {case["name"]: case for case in map(json.loads, done.stdout.splitlines())}


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({topic: dict(enumerate(numbers))})


def rows_cases(topic: str) -> dict[str, dict[str, str]]:
    """Options by name of the case; each gives rows."""
    of_topic = {"subscribe": topic}
    middle = START_MS + 30 * STEP_MS
    late = START_MS + 70 * STEP_MS
    return {
        "everything": of_topic,
        "headers": {**of_topic, "includeHeaders": "true"},
        "a pattern": {"subscribePattern": f"{topic}$"},
        "several topics": {"subscribe": f"{topic},{topic}-empty"},
        "partitions": {"assign": json.dumps({topic: [0, 2]})},
        "only what is committed": {**of_topic, "kafka.isolation.level": "read_committed"},
        "explicit offsets": {
            **of_topic,
            "startingOffsets": offsets(topic, 5, -2, 70),
            "endingOffsets": offsets(topic, 60, 33, -1),
        },
        "explicit offsets, only what is committed": {
            **of_topic,
            "kafka.isolation.level": "read_committed",
            "startingOffsets": offsets(topic, 5, 41, 70),
            "endingOffsets": offsets(topic, 60, 83, -1),
        },
        "a starting timestamp": {**of_topic, "startingTimestamp": str(middle)},
        "timestamps at both ends": {
            **of_topic,
            "startingTimestamp": str(middle),
            "endingTimestamp": str(late),
        },
        "an ending timestamp that nobody has reached": {**of_topic, "endingTimestamp": str(NEVER_MS)},
        "timestamps of partitions": {
            **of_topic,
            "startingOffsetsByTimestamp": offsets(topic, middle, late, START_MS),
            "endingOffsetsByTimestamp": offsets(topic, late, late + 1, middle),
        },
        "a timestamp that wins over offsets": {
            **of_topic,
            "startingTimestamp": str(late),
            "startingOffsets": offsets(topic, 0, 0, 0),
        },
        "no record so late, and the latest instead": {
            **of_topic,
            "startingTimestamp": str(NEVER_MS),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "many tasks": {"subscribe": f"{topic}-cut", "minPartitions": "11"},
        "small tasks": {**of_topic, "maxRecordsPerPartition": "17"},
        "an empty topic": {"subscribe": f"{topic}-empty"},
        "records that are gone, and that is no failure": {
            "subscribe": f"{topic}-cut",
            "failOnDataLoss": "false",
            "startingOffsets": offsets(f"{topic}-cut", 5),
        },
    }


def error_cases(topic: str) -> dict[str, dict[str, str]]:
    """Options by name of the case; each is refused."""
    of_topic = {"subscribe": topic}
    return {
        "latest as the start": {**of_topic, "startingOffsets": "latest"},
        "earliest as the end": {**of_topic, "endingOffsets": "earliest"},
        "latest as the start of a partition": {**of_topic, "startingOffsets": offsets(topic, 0, -1, 0)},
        "earliest as the end of a partition": {**of_topic, "endingOffsets": offsets(topic, 3, -2, 3)},
        "two selections": {**of_topic, "subscribePattern": "x.*"},
        "no selection": {},
        "a pattern without an end": {"subscribePattern": "*["},
        "offsets of some partitions": {**of_topic, "startingOffsets": json.dumps({topic: {"0": 1}})},
        "offsets that are no JSON": {**of_topic, "startingOffsets": "{0"},
        "no record so late": {**of_topic, "startingTimestamp": str(NEVER_MS)},
        "a deserializer": {**of_topic, "kafka.key.deserializer": "x"},
        "auto.offset.reset": {**of_topic, "kafka.auto.offset.reset": "earliest"},
        "auto-commit": {**of_topic, "kafka.enable.auto.commit": "true"},
        "interceptors": {**of_topic, "kafka.interceptor.classes": "x"},
        "records that are gone": {
            "subscribe": f"{topic}-cut",
            "startingOffsets": offsets(f"{topic}-cut", 5),
        },
        "no tasks": {**of_topic, "minPartitions": "0"},
    }


@pytest.mark.parametrize("name", rows_cases(""))
def test_the_rows_are_those_of_sparks_own_source(told: dict[str, dict[str, Any]], name: str) -> None:
    theirs, ours = told[name]["kafka"], told[name]["kcli"]
    assert "rows" in theirs, theirs
    assert ours.get("schema") == theirs["schema"], ours
    assert ours["rows"] == theirs["rows"]


@pytest.mark.parametrize("name", error_cases(""))
def test_what_sparks_own_source_refuses_is_refused(told: dict[str, dict[str, Any]], name: str) -> None:
    assert "error" in told[name]["kafka"], told[name]["kafka"]["rows"][:3]
    assert "error" in told[name]["kcli"], told[name]["kcli"]["rows"][:3]
