"""`kcli produce`: send the lines of files or of standard input to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.line_producer import Produced
from kcli.commands.options import (
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
from kcli.commands.produce_options import (
    Acks,
    BatchSize,
    CompressionCodec,
    Files,
    Idempotence,
    KeySerializer,
    LingerMs,
    MaxBlockMs,
    MaxMemoryBytes,
    MaxRetries,
    MetadataExpiryMs,
    PartitionerOption,
    PartitionNumber,
    ReaderConfig,
    ReaderProperties,
    RequestTimeoutMs,
    RetryBackoffMs,
    SocketBufferSize,
    Sync,
    ValueSerializer,
)
from kcli.commands.runner import command
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.line_reader import ReaderFormat

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "produce",
    example="kcli produce orders --compression-codec zstd orders.jsonl",
    optional_values={"--compression-codec": "gzip", "-z": "gzip"},
)
async def produce(
    topic: TopicArgument = None,
    files: Files = None,
    topic_option: TopicOption = None,
    reader_property: ReaderProperties = None,
    reader_config: ReaderConfig = None,
    key_serializer: KeySerializer = "string",
    value_serializer: ValueSerializer = "string",
    partition: PartitionNumber = None,
    partitioner: PartitionerOption = None,
    sync: Sync = False,
    compression_codec: CompressionCodec = None,
    acks: Acks = None,
    idempotence: Idempotence = None,
    batch_size: BatchSize = None,
    linger_ms: LingerMs = None,
    message_send_max_retries: MaxRetries = None,
    retry_backoff_ms: RetryBackoffMs = None,
    request_timeout_ms: RequestTimeoutMs = None,
    metadata_expiry_ms: MetadataExpiryMs = None,
    max_block_ms: MaxBlockMs = None,
    max_memory_bytes: MaxMemoryBytes = None,
    socket_buffer_size: SocketBufferSize = None,
    line_reader: Annotated[str | None, typer.Option(hidden=True)] = None,
    old_property: Annotated[list[str] | None, typer.Option("--property", hidden=True)] = None,
    producer_property: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    producer_config: Annotated[Path | None, typer.Option("--producer.config", hidden=True)] = None,
    bootstrap_server: BootstrapServer = None,
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
    from kcli.commands.session import client_properties, connect_with, connecting_ms

    if topic_option is not None and topic is not None:
        files, topic = [Path(topic), *(files or ())], None
    target = Target(one_topic(topic, topic_option), one_partition(partition or ()), sync)
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
    timeout_ms = connecting_ms(config.max_block_ms)
    async with connect_with(bootstrap_server, properties, timeout_ms=timeout_ms) as client:
        return await send_inputs(client, config, inputs=inputs, line_format=line_format, target=target)


def one_partition(numbers: Sequence[int]) -> int | None:
    """Return the partition that was named, None for none; it may be named twice."""
    if len({*numbers}) > 1:
        raise UsageError(
            f"`--partition` names several: {', '.join(map(str, numbers))}",
            hint="all records go to one, or without `--partition` to all",
        )
    return next(iter(numbers), None)


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
