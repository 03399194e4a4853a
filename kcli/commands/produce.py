"""`kcli produce`: send the lines of files or of standard input to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.line_producer import Produced
from kcli.commands.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    CommandConfig,
    Property,
    TopicArgument,
    TopicOption,
    one_topic,
    parse_properties,
    read_properties,
    renamed,
)
from kcli.commands.runner import command
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.line_reader import ReaderFormat

app = typer.Typer(rich_markup_mode=None)


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


@command(app, "produce", example="kcli produce orders --compression-codec zstd orders.jsonl")
async def produce(
    topic: TopicArgument = None,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Files of lines; standard input if there is none", show_default=False
        ),
    ] = None,
    topic_option: TopicOption = None,
    reader_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How lines are read: parse.key, key.separator, parse.headers, headers.delimiter, "
            "headers.separator, headers.key.separator, ignore.error, null.marker (repeatable)",
        ),
    ] = None,
    reader_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of reader properties", show_default=False)
    ] = None,
    key_serializer: Annotated[
        str, typer.Option(metavar="TYPE", help="string, short, int, long, float, double, uuid, boolean")
    ] = "string",
    value_serializer: Annotated[str, typer.Option(metavar="TYPE", help="As --key-serializer")] = "string",
    partition: Annotated[
        int | None, typer.Option(min=0, help="Send everything to this partition", show_default=False)
    ] = None,
    partitioner: Annotated[
        PartitionerName | None,
        typer.Option(
            help="How keys choose partitions: murmur2 as Java clients (default), consistent_random as "
            "librdkafka, fnv1a as sarama; they differ, so send the keys of a topic with one of them only",
            show_default=False,
        ),
    ] = None,
    sync: Annotated[bool, typer.Option("--sync", help="Send one record at a time")] = False,
    compression_codec: Annotated[
        Compression | None,
        typer.Option("--compression-codec", "-z", help="(compression.type)", show_default=False),
    ] = None,
    acks: Annotated[
        str | None,
        typer.Option(
            "--acks", "--request-required-acks", metavar="all|1|0", help="(acks)", show_default=False
        ),
    ] = None,
    idempotence: Annotated[
        bool | None,
        typer.Option("--idempotence/--no-idempotence", help="(enable.idempotence)", show_default=False),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", "--max-partition-memory-bytes", min=0, help="(batch.size)", show_default=False
        ),
    ] = None,
    linger_ms: Annotated[
        int | None, typer.Option("--linger-ms", "--timeout", min=0, help="(linger.ms)", show_default=False)
    ] = None,
    message_send_max_retries: Annotated[
        int | None, typer.Option(min=0, help="(retries)", show_default=False)
    ] = None,
    retry_backoff_ms: Annotated[
        int | None, typer.Option(min=0, help="(retry.backoff.ms)", show_default=False)
    ] = None,
    request_timeout_ms: Annotated[
        int | None, typer.Option(min=1, help="(request.timeout.ms)", show_default=False)
    ] = None,
    metadata_expiry_ms: Annotated[
        int | None, typer.Option(min=0, help="(metadata.max.age.ms)", show_default=False)
    ] = None,
    max_block_ms: Annotated[
        int | None, typer.Option(min=0, help="(max.block.ms)", show_default=False)
    ] = None,
    max_memory_bytes: Annotated[
        int | None, typer.Option(min=0, help="(buffer.memory)", show_default=False)
    ] = None,
    socket_buffer_size: Annotated[
        int | None, typer.Option(min=-1, help="(send.buffer.bytes)", show_default=False)
    ] = None,
    line_reader: Annotated[str | None, typer.Option(hidden=True)] = None,
    old_property: Annotated[list[str] | None, typer.Option("--property", hidden=True)] = None,
    producer_property: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    producer_config: Annotated[Path | None, typer.Option("--producer.config", hidden=True)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
    command_property: Property = None,
) -> Produced:
    """Send each line of files or of standard input as a record.

    A line is the value. With parse.key=true it is KEY<tab>VALUE, with parse.headers=true it begins with
    HEADER:VALUE,HEADER:VALUE<tab>. Options win over properties, and these over the properties file.
    """
    from kcli.client.config import ProducerConfig
    from kcli.commands.line_input import open_inputs
    from kcli.commands.line_producer import Target, send_inputs
    from kcli.commands.session import client_properties, connect_with

    if topic_option is not None and topic is not None:
        files, topic = [Path(topic), *(files or ())], None
    target = Target(one_topic(topic, topic_option), partition, sync)
    if line_reader is not None and not line_reader.endswith("LineMessageReader"):
        raise UsageError(f"there is no line reader `{line_reader}`", hint="LineMessageReader is the only one")
    line_format = read_format(
        reader_config,
        renamed(old_property, "--property", reader_property, "--reader-property"),
        key_serializer,
        value_serializer,
    )
    properties = client_properties(
        renamed(producer_config, "--producer.config", command_config, "--command-config"),
        renamed(producer_property, "--producer-property", command_property, "--command-property"),
        {"client.id": "console-producer"},
    )
    flags = {
        "compression.type": compression_codec,
        "acks": acks,
        "enable.idempotence": None if idempotence is None else str(idempotence).lower(),
        "batch.size": batch_size,
        "linger.ms": linger_ms,
        "retries": message_send_max_retries,
        "retry.backoff.ms": retry_backoff_ms,
        "request.timeout.ms": request_timeout_ms,
        "metadata.max.age.ms": metadata_expiry_ms,
        "max.block.ms": max_block_ms,
        "buffer.memory": max_memory_bytes,
        "send.buffer.bytes": socket_buffer_size,
        "partitioner": partitioner,
    }
    properties |= {name: str(value) for name, value in flags.items() if value is not None}
    config = ProducerConfig.from_properties(properties)
    inputs = open_inputs(files or ())
    async with connect_with(bootstrap_server, properties) as client:
        return await send_inputs(client, config, inputs, line_format, target)


def read_format(
    reader_config: Path | None,
    reader_properties: Sequence[str] | None,
    key_serializer: str,
    value_serializer: str,
) -> ReaderFormat:
    """Return how lines are read: the file's reader properties, overridden by those of the command line."""
    from kcli.commands.line_reader import ReaderFormat

    return ReaderFormat.from_properties(
        {
            **read_properties(reader_config),
            **parse_properties(reader_properties, "--reader-property"),
            "key.serializer": key_serializer,
            "value.serializer": value_serializer,
        }
    )
