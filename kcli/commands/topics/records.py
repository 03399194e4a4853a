"""`kcli delete-records`: deletes the records below given offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.shared.arguments import LARGEST_INT32, LARGEST_INT64, not_empty, signed_number
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.output import Table
from kcli.commands.shared.runner import command
from kcli.errors import KcliError, UsageError

app = typer.Typer(rich_markup_mode=None)

FORMAT_HINT = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'


class Target(NamedTuple):
    """A partition and the first offset to keep; -1 is the high watermark."""

    topic: str
    partition: int
    offset: int


class LowWatermark(NamedTuple):
    """A partition and its first remaining offset."""

    topic: str
    partition: int
    low_watermark: int


class DeletedRecords(NamedTuple):
    """The result of `delete-records`."""

    partitions: Sequence[LowWatermark]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        yield "Executing records delete operation"
        yield "Records delete operation completed:"
        for topic, partition, low_watermark in self.partitions:
            yield f"partition: {topic}-{partition}\tlow_watermark: {low_watermark}"

    def tables(self) -> Iterator[Table]:
        yield Table(("Topic", "Partition", "Low watermark"), self.partitions)


@command(app, "delete-records", example="kcli delete-records orders:0:100 orders:1:250")
async def delete_records(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITION:OFFSET...",
            help="The first offset to keep in each partition; -1 keeps nothing",
        ),
    ] = None,
    offset_json_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The offsets as JSON, see above")
    ] = None,
    *,
    cluster: ClusterAddress,
) -> DeletedRecords:
    """Delete the records below an offset of each given partition.

    As JSON: {"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}
    """
    from kcli.client import admin
    from kcli.commands.shared.session import failure
    from kcli.protocol.error_codes import ErrorCode

    wanted = [parse_target(text) for text in targets or ()]
    if offset_json_file is not None:
        wanted += read_targets(offset_json_file)
    if not wanted:
        raise UsageError("no offsets given", hint="TOPIC:PARTITION:OFFSET, or `--offset-json-file FILE`")
    refuse_duplicates(wanted)
    async with cluster.connect() as client:
        results = await admin.delete_records(
            client, {admin.TopicPartition(target.topic, target.partition): target.offset for target in wanted}
        )
    rows, failures = [], []
    for partition, result in results.items():
        if isinstance(result, KcliError):
            if result.code == ErrorCode.POLICY_VIOLATION:
                result.hint = "records can be deleted only if the topic's `cleanup.policy` contains delete"
            failures.append(failure(f"cannot delete records of {partition}", result))
        else:
            rows.append(LowWatermark(partition.topic, partition.partition, result))
    return DeletedRecords(rows, failures)


def parse_target(text: str) -> Target:
    topic, *words = text.rsplit(":", 2)
    not_empty(topic, "topic")
    match [signed_number(word) for word in words]:
        case [int(partition), int(offset)]:
            return checked(Target(topic, partition, offset))
    raise UsageError(
        f"not TOPIC:PARTITION:OFFSET: {text}", hint="orders:0:100 keeps offset 100 and what follows"
    )


def read_targets(path: Path) -> list[Target]:
    """Return the targets in a JSON file of Kafka's tool."""
    from kcli.commands.shared.input_files import entries_of, parse_json, read_text

    document = parse_json(read_text(path), str(path), hint=FORMAT_HINT)
    entries = entries_of(document, str(path), field="partitions", hint=FORMAT_HINT)
    return [
        checked(Target(entry.name("topic"), entry.number_of("partition"), entry.number_of("offset")))
        for entry in entries
    ]


def checked(target: Target) -> Target:
    """Return a target; raise `UsageError` if its numbers are out of range."""
    text = ":".join(map(str, target))
    if target.partition < 0 or target.offset < -1:
        raise UsageError(f"a partition or offset is negative: {text}")
    if target.partition > LARGEST_INT32 or target.offset > LARGEST_INT64:
        raise UsageError(f"a partition or offset is too large: {text}")
    return target


def refuse_duplicates(targets: Sequence[Target]) -> None:
    seen = set()
    for target in targets:
        partition = target[:2]
        if partition in seen:
            raise UsageError(f"a partition is named twice: {target.topic}-{target.partition}")
        seen.add(partition)
