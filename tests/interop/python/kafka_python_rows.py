"""Read partitions with kafka-python into Arrow files, in the columns of Spark's Kafka source.

    python kafka_python_rows.py BOOTSTRAP DIRECTORY TOPIC:PARTITION ...

Each partition becomes `DIRECTORY/TOPIC-PARTITION.arrow`, up to the end that it has now.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

RECORDS = 20_000
TIMEOUT_MS = 120_000

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def rows_of(messages: list[Any]) -> pa.RecordBatch:
    """What kafka-python says of messages, unchanged but for the unit of time."""
    columns = [
        [message.key for message in messages],
        [message.value for message in messages],
        [message.topic for message in messages],
        [message.partition for message in messages],
        [message.offset for message in messages],
        [message.timestamp * 1000 for message in messages],
        [message.timestamp_type for message in messages],
        [
            [{"key": key, "value": value} for key, value in message.headers] if message.headers else None
            for message in messages
        ],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def read(consumer: Any, partition: TopicPartition, path: Path) -> None:
    """Read one partition from its first record to its end."""
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        while consumer.position(partition) < end:
            polled = consumer.poll(timeout_ms=TIMEOUT_MS, max_records=RECORDS)
            if not polled:
                raise SystemExit(f"no record of {partition} at {consumer.position(partition)} of {end}")
            writer.write_batch(rows_of(polled[partition]))


def main(bootstrap: str, directory: str, *partitions: str) -> None:
    """Read every partition."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=8 << 20,
    )
    for name in partitions:
        topic, _, number = name.rpartition(":")
        read(consumer, TopicPartition(topic, int(number)), Path(directory) / f"{topic}-{number}.arrow")
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
