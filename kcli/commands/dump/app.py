"""`kcli dump-log`: prints the files of a log directory and explains damage in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.output import OutputFormat
from kcli.commands.shared.runner import command
from kcli.errors import MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.commands.dump.decoders import Decoder
    from kcli.forensics.contents.log_files import Selection

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "dump-log",
    needs="paths",
    example="kcli dump-log kcli-data/node-1/orders-0 --print-data-log",
    optional_values={"--key-decoder-class": "", "--value-decoder-class": ""},
)
def dump_log(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Files, directories of partitions, or whole log directories",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        str | None, typer.Option(metavar="PATH,...", help="The paths separated by commas, as in Kafka's tool")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="In log directories: only this topic (repeatable)"),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER", help="In log directories: only this partition of each topic (repeatable)"
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="In directories: only these files: log, index, timeindex, txnindex, snapshot, checkpoint, "
            "leader-epoch-checkpoint, offset-checkpoint, partition.metadata, meta.properties (repeatable)",
        ),
    ] = None,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print records with their keys and values")
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Print records, without keys and values")
    ] = False,
    skip_record_metadata: Annotated[
        bool,
        typer.Option(
            "--skip-record-metadata", help="Print only keys and values of records, and no control records"
        ),
    ] = False,
    key_decoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How to decode keys: string, hex, base64, json, int, long or python:module.function",
        ),
    ] = None,
    value_decoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to decode values, like --key-decoder")
    ] = None,
    key_decoder_class: Annotated[str | None, typer.Option(hidden=True)] = None,
    value_decoder_class: Annotated[str | None, typer.Option(hidden=True)] = None,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Decode the records of __consumer_offsets")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Decode the records of __transaction_state")
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="Decode the records of __cluster_metadata")
    ] = False,
    remote_log_metadata_decoder: Annotated[
        bool,
        typer.Option("--remote-log-metadata-decoder", help="Decode the records of __remote_log_metadata"),
    ] = False,
    share_group_state_decoder: Annotated[
        bool, typer.Option("--share-group-state-decoder", help="Decode the records of __share_group_state")
    ] = False,
    from_offset: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="Only records from this offset on")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="Only records before this offset")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only records of this time or later: milliseconds since 1970, or ISO 8601, in UTC unless "
            "it names a zone",
        ),
    ] = None,
    to_time: Annotated[str | None, typer.Option(metavar="TIME", help="Only records before this time")] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only records with this key: text, hex:0aff or base64:Cv8="),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Only batches of this producer")
    ] = None,
    control_only: Annotated[bool, typer.Option("--control-only", help="Only control batches")] = False,
    transactional_only: Annotated[
        bool, typer.Option("--transactional-only", help="Only batches of transactions")
    ] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print a summary of each log instead of its batches")
    ] = False,
    continue_: Annotated[
        bool, typer.Option("--continue", help="After damage, go on with the next valid batch")
    ] = False,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="OUT_DIR", help="Copy the valid batches of the logs, with new indexes, to this directory"
        ),
    ] = None,
    max_message_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="BYTES", help="Largest batch that an index entry may point to  [default: 5242880]"
        ),
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=0, metavar="BYTES", help="Read at most this many bytes of each log")
    ] = None,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Check indexes without printing their entries")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Check only what a starting broker checks")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="As text, print control characters as they are on a terminal, too: there they are escaped",
        ),
    ] = False,
    output: OutputFormat | None = None,
) -> object:
    """Print the files of a log directory, and explain damage in them.

    Files are only read, so a broker may be running on them; a log that is being written is read to its last
    whole batch. Files that a broker has deleted, by compaction for example, come last in their directory, and
    with --kind only if they are named. `text` is the output of Kafka's own kafka-dump-log; `json` is one
    object per line.

    \b
    Damage is explained on standard error, and the exit code is 3:
      bad_crc           The checksum does not match the bytes. A broker that starts
                        here cuts the log before them; another replica has them.
      bad_size, bad_magic, garbage
                        No batch begins here. The dump ends; with --continue it goes
                        on with the next valid batch.
      truncated_batch   The log ends inside a batch: a broker was killed, or the
                        disk was full. A broker that starts here cuts it off.
      undecodable_records, bad_record
                        The checksum is right: the producer or the broker wrote the
                        batch like this.
      Mismatches in     An index does not fit its log. Delete it: a broker that
                        starts here builds a new one. An index from before Kafka 4.1
                        may name the last of several batches; that is no damage.
      Non-consecutive offsets in
                        No damage, exit code 0: compaction leaves gaps. `-1 is
                        followed by` is the beginning of a later segment.
    `kcli verify-index --explain` lists all kinds of damage and what to do. --repair
    copies the batches before the first damage, with --continue all valid ones; a
    broker can start on the copy. With --from-offset or --to-offset, damage to other
    offsets is counted in a note, and changes no exit code.

    \b
    Differences from kafka-dump-log 4.3.1:
      - Kafka's tool ends with an exception at damage, at a value that the decoder
        cannot read, at an index entry that points to no batch (`log offset: -1`)
        and at the reserved index of an empty log. kcli explains it or goes on.
      - Kafka's tool always exits with 0.
      - The words behind `skipping.`, where a coordinator's record is damaged.
      - DefaultDecoder prints hexadecimal digits, not the address of a Java array.
      - Header names that are not UTF-8 are damage.
      - At most 200000 pairs that do not fit are listed.
      - An unknown file is an error. Checkpoints, partition.metadata,
        meta.properties and files that end with .deleted or .swap are known.
    """
    from kcli.commands.dump.options import MAX_MESSAGE_SIZE, DumpOptions, Filter, parse_key
    from kcli.commands.shared.times import parse_time

    chosen = [*(paths or ()), *(path for path in (files or "").split(",") if path)]
    if not chosen:
        raise MissingArgument("PATH...")
    decoder, decodes = choose_decoder(
        key_decoder if key_decoder is not None else key_decoder_class,
        value_decoder if value_decoder is not None else value_decoder_class,
        {
            "offsets": offsets_decoder,
            "transaction-log": transaction_log_decoder,
            "cluster-metadata": cluster_metadata_decoder,
            "remote-log-metadata": remote_log_metadata_decoder,
            "share-group-state": share_group_state_decoder,
        },
    )
    prints = print_data_log or decodes
    options = DumpOptions(
        decoder,
        Filter(
            from_offset,
            to_offset,
            None if from_time is None else parse_time(from_time, "--from-time"),
            None if to_time is None else parse_time(to_time, "--to-time"),
            None if key is None else parse_key(key),
            producer_id,
            control_only,
            transactional_only,
        ),
        prints_contents=prints,
        deep=prints or deep_iteration or summary,
        skips_metadata=skip_record_metadata,
        max_bytes=max_bytes,
        max_message_size=MAX_MESSAGE_SIZE if max_message_size is None else max_message_size,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        continues=continue_,
        is_raw=raw,
    )
    if raw and output is None:
        output = OutputFormat.TEXT
    if raw and output is OutputFormat.TABLE:
        raise UsageError("a table is never raw: its cells are escaped", hint="`-o text` or `-o json`")
    selection = make_selection(topic or (), partition or (), kind or ())
    if repair is None:
        from kcli.commands.dump.run import dump

        dump(chosen, selection, options, output, is_summary=summary)
        return None
    if summary:
        raise UsageError("`--repair` and `--summary` exclude each other")
    from kcli.commands.dump.repair import repair_logs

    return repair_logs(chosen, repair, selection, carves=continue_, is_deep=deep_iteration)


def make_selection(topics: Sequence[str], partitions: Sequence[int], kinds: Sequence[str]) -> Selection:
    from kcli.forensics.contents.log_files import FileKind, Selection

    for unknown in (kind for kind in kinds if kind not in list(FileKind)):
        raise UsageError(f"unknown kind of file `{unknown}`", hint=", ".join(FileKind))
    names = frozenset(not_empty(topic, "topic") for topic in topics)
    return Selection(names, frozenset(partitions), frozenset(map(FileKind, kinds)))


def choose_decoder(key: str | None, value: str | None, coordinators: dict[str, bool]) -> tuple[Decoder, bool]:
    """Return the decoder, and whether an option asked for one: then records are printed."""
    from kcli.commands.dump.decoders import PlainDecoder

    chosen = [name for name, is_chosen in coordinators.items() if is_chosen]
    if len(chosen) > 1 or (chosen and (key is not None or value is not None)):
        raise UsageError("more than one decoder", hint="each log has one kind of records")
    if chosen:
        from kcli.commands.dump.coordinator_decoders import COORDINATOR_DECODERS

        return COORDINATOR_DECODERS[chosen[0]](), True
    decoder = PlainDecoder(key or "string", value or "string")
    return decoder, key is not None or value is not None
