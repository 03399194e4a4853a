"""`kcli produce`: sends lines as records, with the options of Kafka's console producer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer.models import OptionInfo

from kcli.commands.produce.line_sender import Produced
from kcli.commands.produce.transactions import Ends, ProducedInTransactions
from kcli.commands.shared.arguments import not_empty, parse_properties, read_properties
from kcli.commands.shared.options import ClusterAddress, TopicArgument, TopicOption, one_topic, renamed
from kcli.commands.shared.runner import command
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.produce.json_reader import JsonReader
    from kcli.commands.produce.line_reader import LineReader, ReaderFormat

    Reader = LineReader | JsonReader


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class PartitionerName(StrEnum):
    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    FNV1A = "fnv1a"
    STICKY = "sticky"
    ROUNDROBIN = "roundrobin"


Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]...", help="Files of lines; standard input by default", show_default=False),
]
PartitionNumber = Annotated[
    list[int] | None, typer.Option(min=0, metavar="N", help="Send everything to this partition")
]
PartitionerOption = Annotated[
    PartitionerName | None,
    typer.Option(
        help="How keys choose partitions: murmur2 as in Java clients (default), consistent_random as in "
        "librdkafka, fnv1a as in sarama; use only one of them for a topic",
        show_default=False,
    ),
]
Sync = Annotated[bool, typer.Option("--sync", help="Send each record after the acknowledgement of the last")]


class InputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class ReaderOptions(NamedTuple):
    """How lines are read."""

    input_format: Annotated[
        InputFormat,
        typer.Option(
            help="What a line is: text, or json, an object as `consume -o json` prints it, with headers, "
            "timestamp and partition"
        ),
    ] = InputFormat.TEXT
    reader_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How lines are read: parse.key, key.separator, parse.headers, headers.delimiter, "
            "headers.separator, headers.key.separator, ignore.error, null.marker (repeatable)",
        ),
    ] = None
    reader_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of reader properties", show_default=False)
    ] = None
    key_serializer: Annotated[
        str,
        typer.Option(
            metavar="TYPE", help="Type of keys: string, bytes, short, int, long, float, double, uuid, boolean"
        ),
    ] = "string"
    value_serializer: Annotated[str, typer.Option(metavar="TYPE", help="Type of values, as for keys")] = (
        "string"
    )

    def reader(self, old_properties: Sequence[str] | None, *, keeps_partitions: bool) -> Reader:
        """Return the reader of lines; a JSON record may go to its own partition if `keeps_partitions`."""
        from kcli.commands.produce.line_reader import LineReader

        if self.input_format is InputFormat.TEXT:
            return LineReader(self.format(old_properties))
        from kcli.commands.produce.json_reader import JsonReader
        from kcli.commands.shared.serdes import serializer

        if self.reader_property or self.reader_config or old_properties:
            raise UsageError("reader properties are for lines of text, not for `--input-format json`")
        key, value = serializer(self.key_serializer), serializer(self.value_serializer)
        return JsonReader(key, value, keeps_partitions=keeps_partitions)

    def format(self, old_properties: Sequence[str] | None) -> ReaderFormat:
        """Return the format of lines: the file's reader properties, overridden by the command line's."""
        from kcli.commands.produce.line_reader import ReaderFormat

        given = renamed(old_properties, "--property", self.reader_property, "--reader-property")
        return ReaderFormat.from_properties(
            {
                **read_properties(self.reader_config),
                **parse_properties(given, "--reader-property"),
                "key.serializer": self.key_serializer,
                "value.serializer": self.value_serializer,
            }
        )


def _option(help: str, *names: str, metavar: str | None = None, min: int | None = None) -> OptionInfo:
    """Return an option whose default is the producer's own."""
    option: OptionInfo = typer.Option(*names, metavar=metavar, min=min, help=help, show_default=False)
    return option


class ProducerOptions(NamedTuple):
    """Options that each set one property of the producer."""

    compression_codec: Annotated[
        Compression | None,
        _option(
            "Compress batches (compression.type): none by default, gzip if no codec is named",
            "--compression-codec",
            "-z",
        ),
    ] = None
    acks: Annotated[
        str | None,
        _option(
            "Which replicas must have a record before it counts as sent (acks): all in sync by default, "
            "only the leader, none",
            "--acks",
            "--request-required-acks",
            metavar="all|1|0",
        ),
    ] = None
    idempotence: Annotated[
        bool | None,
        _option(
            "Retries write no record twice (enable.idempotence): by default with acks all",
            "--idempotence/--no-idempotence",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        _option(
            "Largest batch of a partition (batch.size), 16384 by default",
            "--batch-size",
            "--max-partition-memory-bytes",
            metavar="BYTES",
            min=0,
        ),
    ] = None
    linger_ms: Annotated[
        int | None,
        _option(
            "How long a batch waits for more records (linger.ms), 5 by default",
            "--linger-ms",
            "--timeout",
            metavar="MS",
            min=0,
        ),
    ] = None
    message_send_max_retries: Annotated[
        int | None,
        _option("How often a batch is sent again (retries): by default for 2 minutes", metavar="N", min=0),
    ] = None
    retry_backoff_ms: Annotated[
        int | None,
        _option("Pause before the first retry (retry.backoff.ms), 100 by default", metavar="MS", min=0),
    ] = None
    request_timeout_ms: Annotated[
        int | None,
        _option(
            "How long to wait for a broker's answer (request.timeout.ms), 30000 by default",
            metavar="MS",
            min=1,
        ),
    ] = None
    metadata_expiry_ms: Annotated[
        int | None,
        _option("The largest age of metadata (metadata.max.age.ms), 300000 by default", metavar="MS", min=0),
    ] = None
    max_block_ms: Annotated[
        int | None,
        _option(
            "How long to wait for metadata or buffer space (max.block.ms), 60000 by default",
            metavar="MS",
            min=0,
        ),
    ] = None
    max_memory_bytes: Annotated[
        int | None,
        _option("Buffer for unsent records (buffer.memory), 32 MiB by default", metavar="BYTES", min=0),
    ] = None
    socket_buffer_size: Annotated[
        int | None,
        _option("Socket buffer (send.buffer.bytes): the system's by default", metavar="BYTES", min=-1),
    ] = None

    def properties(self) -> dict[str, str]:
        values = {
            "compression.type": self.compression_codec,
            "acks": self.acks,
            "enable.idempotence": None if self.idempotence is None else str(self.idempotence).lower(),
            "batch.size": self.batch_size,
            "linger.ms": self.linger_ms,
            "retries": self.message_send_max_retries,
            "retry.backoff.ms": self.retry_backoff_ms,
            "request.timeout.ms": self.request_timeout_ms,
            "metadata.max.age.ms": self.metadata_expiry_ms,
            "max.block.ms": self.max_block_ms,
            "buffer.memory": self.max_memory_bytes,
            "send.buffer.bytes": self.socket_buffer_size,
        }
        return {name: str(value) for name, value in values.items() if value is not None}


class TransactionOptions(NamedTuple):
    """Whether records are sent in transactions, and how these end."""

    transactional_id: Annotated[
        str | None,
        _option(
            "Send in a transaction of this id (transactional.id): readers with `read_committed` see all of "
            "it or nothing",
            metavar="ID",
        ),
    ] = None
    transaction_records: Annotated[
        int | None,
        _option("Commit after every N records; by default once, behind the last", metavar="N", min=1),
    ] = None
    transaction_timeout_ms: Annotated[
        int | None,
        _option(
            "When the broker aborts a transaction that does not end (transaction.timeout.ms), 60000 by "
            "default",
            metavar="MS",
            min=1,
        ),
    ] = None
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort every transaction instead of committing it: for tests")
    ] = False

    def properties(self) -> dict[str, str]:
        """Return the properties that the options set."""
        if self.transactional_id is not None:
            not_empty(self.transactional_id, "transactional id")
        values = {
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": self.transaction_timeout_ms,
        }
        return {name: str(value) for name, value in values.items() if value is not None}

    def check(self, transactional_id: str) -> None:
        """Raise `UsageError` for options that need a transactional id, if there is none."""
        given = {
            "--transaction-records": self.transaction_records,
            "--transaction-timeout-ms": self.transaction_timeout_ms,
            "--abort": self.abort or None,
        }
        for option, value in given.items():
            if value is not None and not transactional_id:
                raise UsageError(f"`{option}` needs `--transactional-id`")


app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "produce",
    needs="topic",
    example="kcli produce orders --compression-codec zstd orders.jsonl",
    optional_values={"--compression-codec": "gzip", "-z": "gzip"},
)
async def produce(
    topic: TopicArgument = None,
    files: Files = None,
    topic_option: TopicOption = None,
    *,
    reader: ReaderOptions,
    partition: PartitionNumber = None,
    partitioner: PartitionerOption = None,
    sync: Sync = False,
    options: ProducerOptions,
    transactions: TransactionOptions,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Tell producer id, epoch and end of each transaction, and show the traceback of a bug",
        ),
    ] = False,
    line_reader: Annotated[str | None, typer.Option(hidden=True)] = None,
    old_property: Annotated[list[str] | None, typer.Option("--property", hidden=True)] = None,
    producer_property: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    producer_config: Annotated[Path | None, typer.Option("--producer.config", hidden=True)] = None,
    cluster: ClusterAddress,
) -> Produced | ProducedInTransactions:
    """Send each line of files or of standard input as a record.

    A line is the value. With parse.key=true it is KEY<tab>VALUE, with parse.headers=true it begins with
    HEADER:VALUE,HEADER:VALUE<tab>. Options override properties, and these override the properties file.

    With --input-format json a line is an object with `key`, `value`, `headers`, `timestamp` and `partition`,
    each of which may be missing, as `kcli consume -o json` prints it: bytes that are no text are
    {"base64": "..."}. --partition and --partitioner override its partition. A line that is no record ends the
    input with exit code 2; the records before it are sent.

    With --transactional-id all records are one transaction, or one each --transaction-records. An error, and
    Ctrl-C, aborts the one that is open; what was committed before stays.
    """
    from kcli.client.config import ProducerConfig
    from kcli.commands.produce.line_reader import open_inputs
    from kcli.commands.produce.line_sender import Target, send_in_transactions, send_inputs
    from kcli.commands.shared.session import client_properties, connect_with, connecting_ms

    if topic_option is not None and topic is not None:
        files, topic = [Path(topic), *(files or ())], None
    target = Target(one_topic(topic, topic_option), one_partition(partition or ()), sync)
    if line_reader is not None and not line_reader.endswith("LineMessageReader"):
        raise UsageError(f"there is no line reader `{line_reader}`", hint="LineMessageReader is the only one")
    records = reader.reader(old_property, keeps_partitions=partitioner is None)
    properties = client_properties(
        renamed(producer_config, "--producer.config", cluster.command_config, "--command-config"),
        renamed(producer_property, "--producer-property", cluster.command_property, "--command-property"),
        {"client.id": "console-producer"},
        profile=cluster.profile,
    )
    properties |= options.properties() | transactions.properties()
    if partitioner is not None:
        properties["partitioner"] = partitioner.value
    config = ProducerConfig.from_properties(properties)
    transactions.check(config.transactional_id)
    inputs = open_inputs(files or ())
    timeout_ms = connecting_ms(config.max_block_ms)
    async with connect_with(cluster.bootstrap_server, properties, timeout_ms=timeout_ms) as client:
        if not config.transactional_id:
            return await send_inputs(client, config, inputs=inputs, reader=records, target=target)
        ends = Ends(transactions.transaction_records, transactions.abort, verbose)
        return await send_in_transactions(
            client, config, inputs=inputs, reader=records, target=target, ends=ends
        )


def one_partition(numbers: Sequence[int]) -> int | None:
    """Return the named partition, None for none; the same one may be named twice."""
    if len({*numbers}) > 1:
        raise UsageError(
            f"`--partition` names several: {', '.join(map(str, numbers))}",
            hint="all records go to one partition, or without `--partition` to all",
        )
    return next(iter(numbers), None)
