"""`kcli spark-import`: the records of an export, back in a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.shared.formatting import counted, duration_text
from kcli.commands.shared.options import ClusterAddress, complete_topic
from kcli.commands.shared.output import Table, note
from kcli.commands.shared.runner import command
from kcli.errors import Interrupted, KcliError, MissingArgument, UsageError, install_hint

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.config import ProducerConfig
    from kcli.spark.export.log.export_log import Listing
    from kcli.spark.export.log.receipt import WrittenFile
    from kcli.spark.export.target.target import Target
    from kcli.spark.importing.import_state import ImportState, PartitionPlan, StateFile
    from kcli.spark.importing.import_target import TargetTopic
    from kcli.spark.importing.stored_records import PartitionRows

app = typer.Typer(rich_markup_mode=None)

DEFAULTS = {
    "client.id": "kcli-spark-import",
    "compression.type": "zstd",
    "batch.size": "262144",
    "linger.ms": "20",
    # The broker decides how large a record may be.
    "max.request.size": str(2**31 - 1),
    "buffer.memory": str(64 * 1024 * 1024),
}

FLUSH_AFTER_INTERRUPT_MS = 800

STATE_DIRECTORY = "_kcli/import"
"""A directory of the export's state with a file per cluster and topic."""

LOST = {
    "key": "the export has no keys: records come back without",
    "timestamp": "the export has no timestamps: records come back without",
    "headers": "the export has no headers: records come back without (`--include-headers` exports them)",
}


class ImportChoice(NamedTuple):
    """What to import, and into which topic."""

    directory: Annotated[
        str,
        typer.Argument(metavar="DIR|URI", help="The target of `kcli spark-export --to`", show_default=False),
    ]
    topic: Annotated[
        str,
        typer.Option(
            metavar="TOPIC", help="The topic to write to", autocompletion=complete_topic, show_default=False
        ),
    ] = ""
    source_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="The topic of the export, if it holds several", show_default=False
        ),
    ] = None
    create: Annotated[
        bool,
        typer.Option(
            "--create/--no-create",
            help="Create a missing topic, with enough partitions and unlimited retention",
        ),
    ] = True
    restart: Annotated[
        bool, typer.Option("--restart", help="Import everything again, behind the records of the topic")
    ] = False
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that remembers the progress  [default: in the export's log]",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; write nothing")] = (
        False
    )


@command(app, "spark-import", example="kcli spark-import orders.parquet --topic orders-again")
async def spark_import(choice: ImportChoice, cluster: ClusterAddress) -> object:
    """Write the records of an export to a topic again, each once.

    Keys, values, headers, timestamps, partitions and order are those of the export;
    offsets are new. An import can be interrupted or killed at any time: the same command
    continues behind the last record that arrived. After another export it imports the
    new records.

    \b
    No other producer may write to the topic meanwhile. The progress is the
    difference between the end offsets of the topic now and before the import,
    which a file in its log remembers; the last record is compared too.

    \b
    Values that were exported as string, int, long or double, or as json without
    a schema, get their original bytes. Values of json with a schema and of avro
    cannot: export them as binary.
    """
    from kcli.commands.shared.session import client_properties, connect_with, connecting_ms

    if not choice.topic:
        raise MissingArgument("--topic", what="option")
    if find_spec("pyarrow") is None:
        raise KcliError("`spark-import` needs pyarrow", hint=install_hint("spark"))
    from kcli.spark.export.target.object_target import open_target

    properties = DEFAULTS | client_properties(
        cluster.command_config, cluster.command_property, profile=cluster.profile
    )
    config = producer_config(properties)
    target = open_target(choice.directory)
    stored = read_stored(target, choice)
    timeout_ms = connecting_ms(config.max_block_ms)
    async with connect_with(cluster.bootstrap_server, properties, timeout_ms=timeout_ms) as client:
        return await import_stored(client, target, stored, choice, config)


def producer_config(properties: dict[str, str]) -> ProducerConfig:
    """Return the producer's configuration; only an idempotent one leaves no gaps and no duplicates."""
    from kcli.client.config import ProducerConfig

    config = ProducerConfig.from_properties(properties)
    if not config.is_idempotent:
        raise UsageError("an import needs an idempotent producer", hint="leave `acks` and `retries` alone")
    if config.transactional_id:
        raise UsageError(
            "an import is not a transaction",
            hint="leave `transactional.id` out: a run that ended early goes on where it was",
        )
    return config


class Stored(NamedTuple):
    topic: str
    rows: Mapping[int, PartitionRows]
    counts: Mapping[int, int]
    oldest_ms: int | None
    partition_count: int
    """The partitions of the topic that the export knows."""


def read_stored(target: Target, choice: ImportChoice) -> Stored:
    """Return the rows to import; raise `KcliError` if they cannot be imported."""
    import pyarrow.parquet as pq

    from kcli.spark.export.log.export_log import list_export
    from kcli.spark.importing.stored_records import PartitionRows, StoredFile, by_partition, check_stored

    listing = list_export(target)
    topic = source_topic(listing, choice)
    written = [file for file in listing.files if file.topic == topic and file.rows]
    files = by_partition(part for one in written for part in StoredFile.parts_of(one))

    def opened(file: StoredFile) -> pq.ParquetFile:
        return pq.ParquetFile(target.open_input(file.path))

    check_stored(target, (file for part in files.values() for file in part))
    if written:
        check_columns(written[0], opened(next(iter(files.values()))[0]))
    oldest_us = [file.first_timestamp_us for file in written if file.first_timestamp_us is not None]
    return Stored(
        topic,
        {partition: PartitionRows(part, opened) for partition, part in files.items()},
        {partition: sum(file.rows for file in part) for partition, part in files.items()},
        min(oldest_us) // 1000 if oldest_us else None,
        max([*files, *listing.next_offsets.get(topic, ())], default=0) + 1,
    )


def source_topic(listing: Listing, choice: ImportChoice) -> str:
    """Return the topic of the export to import: the only one, or the one named like the target."""
    names = sorted({*listing.topics, *(file.topic for file in listing.files)})
    chosen = choice.source_topic
    if chosen is None:
        chosen = names[0] if len(names) == 1 else choice.topic
    if chosen in names:
        return chosen
    if not names:
        raise KcliError(f"`{listing.target}` holds no records")
    if choice.source_topic is None:
        raise UsageError(
            f"`{listing.target}` holds several topics: {', '.join(names)}", hint="--source-topic NAME"
        )
    raise KcliError(f"`{listing.target}` holds no topic `{chosen}`", hint=f"it holds {', '.join(names)}")


def check_columns(written: WrittenFile, file: object) -> None:
    """Raise `KcliError` if the values' bytes are gone; warn of other missing columns."""
    from kcli.spark.importing.original_bytes import is_reversible

    schema = file.schema_arrow  # type: ignore[attr-defined]  # of a pyarrow.parquet.ParquetFile
    if "value" not in schema.names:
        raise KcliError(f"`{written.path}` has no column `value`: the records cannot come back")
    for name in ("key", "value"):
        if name in schema.names and not is_reversible(schema.field(name).type):
            raise KcliError(
                f"the bytes of the {name}s are gone: the export decoded them to {schema.field(name).type}",
                hint=f"export with `--{name}-as binary`",
            )
    for name, what in LOST.items():
        if name not in schema.names:
            note(f"warning: {what}")


async def import_stored(
    client: Client, target: Target, stored: Stored, choice: ImportChoice, config: ProducerConfig
) -> Imported:
    """Send the rows that are not in the topic yet."""
    from dataclasses import replace

    from kcli.spark.importing.import_state import ImportState

    begun = monotonic()
    topic = await target_topic(client, stored, choice)
    identity = ImportState(stored.topic, topic.name, client.cluster.cluster_id, topic.topic_id)
    file = state_file(target, identity, choice)
    with nullcontext() if choice.dry_run else file.lock():
        before = state_before(file, identity, choice)
        plans = await plan(client, stored, topic, before)
        delivered: Mapping[int, int] = {}
        failures: Sequence[KcliError] = ()
        if not choice.dry_run:
            # Where each partition ended before its first record was sent.
            base = {} if before is None else before.base
            file.save(replace(identity, base=base | {one.partition: one.base for one in plans.values()}))
            delivered, failures = await send(client, stored, topic.name, plans, config)
    return Imported(
        "dry-run" if choice.dry_run else "import",
        target.uri,
        stored.topic,
        topic.name,
        [
            ImportedPartition(one.partition, one.rows, one.done, delivered.get(one.partition, 0))
            for one in plans.values()
        ],
        monotonic() - begun,
        failures,
    )


async def target_topic(client: Client, stored: Stored, choice: ImportChoice) -> TargetTopic:
    """Return the topic to write to; create it if it does not exist."""
    from kcli.spark.importing.import_target import (
        TargetTopic,
        check_topic,
        create_topic,
        find_topic,
        retention_warning,
    )

    count = stored.partition_count
    found = await find_topic(client, choice.topic)
    if found is None:
        if not choice.create:
            hint = f"kcli topics create {choice.topic} --partitions {count} --config retention.ms=-1"
            raise KcliError(f"topic `{choice.topic}` does not exist", hint=hint)
        if choice.dry_run:
            note(f"topic `{choice.topic}` would be created with {counted(count, 'partition')}")
            return TargetTopic(choice.topic, None, (), {})
        found = await create_topic(client, choice.topic, count)
        note(f"created topic `{choice.topic}`: {counted(count, 'partition')}, records are kept without limit")
    check_topic(found, stored.counts)
    warning = retention_warning(found, stored.oldest_ms, int(time() * 1000))
    if warning is not None:
        note(f"warning: {warning}")
    return found


def state_file(target: Target, identity: ImportState, choice: ImportChoice) -> StateFile:
    from kcli.spark.export.target.local_target import LocalTarget
    from kcli.spark.importing.import_state import StateFile

    if choice.state is not None:
        return StateFile(choice.state)
    if not isinstance(target, LocalTarget):
        raise UsageError("an import from an object store needs `--state FILE`", hint="a file on this machine")
    name = f"{identity.cluster or 'cluster'}.{identity.target}.json"
    return StateFile(Path(target.local_path(f"{STATE_DIRECTORY}/{name}")))


def state_before(file: StateFile, identity: ImportState, choice: ImportChoice) -> ImportState | None:
    """Return the state of an earlier run of this import."""
    from kcli.spark.importing.import_state import RESTART_HINT

    before = None if choice.restart else file.load()
    if before is None or before.is_of(identity):
        return before
    if before.topic_id != identity.topic_id and before.source == identity.source:
        what = f"topic `{identity.target}` was made anew since the import began"
    else:
        what = f"`{file.path}` is about another import: of `{before.source}` to `{before.target}`"
    raise KcliError(what, hint=RESTART_HINT)


async def plan(
    client: Client, stored: Stored, topic: TargetTopic, before: ImportState | None
) -> dict[int, PartitionPlan]:
    """Return what is left to send; raise `KcliError` if the target has changed."""
    from kcli.spark.importing.import_run import row_before
    from kcli.spark.importing.import_state import plan_import
    from kcli.spark.importing.import_target import check_last, end_offsets

    ends = dict.fromkeys(stored.counts, 0)
    if topic.partitions:
        ends = await end_offsets(client, topic.name, stored.counts)
    plans = plan_import(stored.counts, ends, before, topic.name)
    for one in plans.values():
        last = row_before(stored.rows[one.partition], one)
        if last is not None:
            await check_last(client, topic.name, one, last)
    return plans


async def send(
    client: Client, stored: Stored, topic: str, plans: Mapping[int, PartitionPlan], config: ProducerConfig
) -> tuple[Mapping[int, int], Sequence[KcliError]]:
    """Send the rows; return what was delivered, and the errors that ended it early."""
    from kcli.client.producer.producer import Producer
    from kcli.commands.export.progress import work_progress
    from kcli.commands.shared.interrupts import interruptible
    from kcli.commands.shared.output import warn
    from kcli.spark.importing.import_run import ImportRun

    failures: list[KcliError] = []
    total = sum(one.todo for one in plans.values())
    async with Producer(client, config, warn=warn) as producer, interruptible() as scope:
        with work_progress("importing", total_rows=total) as progress:
            run = ImportRun(producer, topic, progress)
            with scope:
                try:
                    await run.run(stored.rows, plans)
                except KcliError as error:
                    failures.append(error)
            if scope.cancel_called:
                await producer.close(FLUSH_AFTER_INTERRUPT_MS)
    if scope.cancel_called:
        sent = sum(run.delivered.values())
        failures.append(
            Interrupted(
                f"interrupted: {sent} of {total} records were delivered",
                hint="the same command goes on from here",
            )
        )
    return run.delivered, failures


class ImportedPartition(NamedTuple):
    """One partition: rows in the export, rows that were in the topic before, rows sent now."""

    partition: int
    rows: int
    before: int
    imported: int


class Imported(NamedTuple):
    """The result of an import, or of a dry run, which sends nothing."""

    operation: str
    source: str
    source_topic: str
    topic: str
    partitions: Sequence[ImportedPartition]
    seconds: float
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for part in self.partitions:
            already = f", {part.before:,} there before" if part.before else ""
            done = "to import" if self.operation == "dry-run" else "imported"
            count = part.rows - part.before if self.operation == "dry-run" else part.imported
            yield f"{self.topic}-{part.partition}: {counted(count, 'record')} {done}{already}"
        yield self.total()

    def total(self) -> str:
        left = sum(part.rows - part.before for part in self.partitions)
        imported = sum(part.imported for part in self.partitions)
        if not left:
            return f"nothing new for topic {self.topic}"
        if self.operation == "dry-run":
            return f"dry run: {counted(left, 'record')} of {self.source_topic} to topic {self.topic}"
        rate = (
            f", {imported / self.seconds:,.0f} records/s" if imported >= 1000 and self.seconds >= 0.1 else ""
        )
        return (
            f"{counted(imported, 'record')} of {self.source_topic} to topic {self.topic}, "
            f"{duration_text(self.seconds)}{rate}"
        )

    def tables(self) -> Iterator[Table]:
        columns = ("Partition", "Rows", "There before", "Imported") if self.partitions else ()
        yield Table(columns, self.partitions, title=self.total())

    def document(self) -> object:
        return self._asdict() | {"failures": list(self.failures)}
