"""The options of `kcli produce`, named as in Kafka's console producer, each with the property it sets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Compression(StrEnum):
    """What batches are compressed with."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class PartitionerName(StrEnum):
    """How a record's partition is chosen."""

    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    FNV1A = "fnv1a"
    STICKY = "sticky"
    ROUNDROBIN = "roundrobin"


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...", help="Files of lines; standard input if there is none", show_default=False
    ),
]
ReaderProperties = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="How lines are read: parse.key, key.separator, parse.headers, headers.delimiter, "
        "headers.separator, headers.key.separator, ignore.error, null.marker (repeatable)",
    ),
]
ReaderConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of reader properties", show_default=False)
]
KeySerializer = Annotated[
    str,
    typer.Option(
        metavar="TYPE", help="Type of keys: string, bytes, short, int, long, float, double, uuid, boolean"
    ),
]
ValueSerializer = Annotated[str, typer.Option(metavar="TYPE", help="Type of values, as of keys")]
PartitionNumber = Annotated[
    list[int] | None,
    typer.Option(min=0, metavar="N", help="Send everything to this partition"),
]
PartitionerOption = Annotated[
    PartitionerName | None,
    typer.Option(
        help="How keys choose partitions: murmur2 as Java clients (default), consistent_random as "
        "librdkafka, fnv1a as sarama; they differ, so send the keys of a topic with one of them only",
        show_default=False,
    ),
]
Sync = Annotated[
    bool, typer.Option("--sync", help="Send one record at a time, each when the last is acknowledged")
]
CompressionCodec = Annotated[
    Compression | None,
    typer.Option(
        "--compression-codec",
        "-z",
        help="Compress batches (compression.type): none by default, gzip if no codec is named",
        show_default=False,
    ),
]
Acks = Annotated[
    str | None,
    typer.Option(
        "--acks",
        "--request-required-acks",
        metavar="all|1|0",
        help="Who has a record before it counts as sent (acks): all in-sync replicas by default, "
        "the leader, nobody",
        show_default=False,
    ),
]
Idempotence = Annotated[
    bool | None,
    typer.Option(
        "--idempotence/--no-idempotence",
        help="Write no record twice when it is sent again (enable.idempotence): by default with acks all",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        "--max-partition-memory-bytes",
        min=0,
        metavar="BYTES",
        help="Largest batch of a partition (batch.size), 16384 by default",
        show_default=False,
    ),
]
LingerMs = Annotated[
    int | None,
    typer.Option(
        "--linger-ms",
        "--timeout",
        min=0,
        metavar="MS",
        help="How long a batch waits for more records (linger.ms), 5 by default",
        show_default=False,
    ),
]
MaxRetries = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="How often a batch is sent again (retries): by default until 2 minutes are over",
        show_default=False,
    ),
]
RetryBackoffMs = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="MS",
        help="Pause before the first retry (retry.backoff.ms), 100 by default",
        show_default=False,
    ),
]
RequestTimeoutMs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="MS",
        help="How long to wait for a broker's answer (request.timeout.ms), 30000 by default",
        show_default=False,
    ),
]
MetadataExpiryMs = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="MS",
        help="How old metadata may become (metadata.max.age.ms), 300000 by default",
        show_default=False,
    ),
]
MaxBlockMs = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="MS",
        help="How long to wait for metadata or room to buffer (max.block.ms), 60000 by default",
        show_default=False,
    ),
]
MaxMemoryBytes = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="BYTES",
        help="Room for records that are not sent yet (buffer.memory), 32 MiB by default",
        show_default=False,
    ),
]
SocketBufferSize = Annotated[
    int | None,
    typer.Option(
        min=-1,
        metavar="BYTES",
        help="Socket buffer (send.buffer.bytes): the system's by default",
        show_default=False,
    ),
]
