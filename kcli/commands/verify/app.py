"""`kcli verify-index`: checks whether the files of log directories agree with each other.

Files are only read. A broker may be running: an entry that it is still writing is no finding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.output import OutputFormat, chosen_format
from kcli.commands.shared.runner import command
from kcli.errors import MissingArgument

app = typer.Typer(rich_markup_mode=None)

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        help="Directories of partitions, log directories of brokers, or single files of them",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic of a log directory (repeatable)"),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="NUMBER", help="Only this partition of each topic (repeatable)"),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Check each record: decompression, counts, offsets, timestamps")
]
IndexSanityCheck = Annotated[
    bool,
    typer.Option(
        "--index-sanity-check",
        help="Check indexes only like a starting broker: by size and last entry, without the log",
    ),
]
VerifyIndexOnly = Annotated[
    bool, typer.Option("--verify-index-only", help="Report only on indexes, not on logs and other files")
]
MaxMessageSize = Annotated[
    int | None,
    typer.Option(
        "--max-message-size",
        metavar="BYTES",
        min=1,
        help="Largest batch that an offset index may point to; no limit by default",
        show_default=False,
    ),
]
Rebuild = Annotated[
    Path | None,
    typer.Option(
        "--rebuild",
        metavar="OUT_DIR",
        help="Write fresh indexes to this directory, new or empty, in one directory per partition",
        show_default=False,
    ),
]
IndexIntervalBytes = Annotated[
    int,
    typer.Option(
        "--index-interval-bytes", metavar="BYTES", min=0, help="Bytes between entries of fresh indexes"
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="OTHER_DIR",
        help="Compare with another replica of the partition, or with the replicas in another log directory",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        min=1,
        help="Number of processes; by default one per processor if there is much to read",
        show_default=False,
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Also say what each kind of finding means and what to do; without PATH, list all kinds",
    ),
]


@command(app, "verify-index", needs="paths", example="kcli verify-index /var/lib/kafka/data/orders-0")
def verify_index(
    paths: Paths = None,
    topics: Topics = None,
    partitions: Partitions = None,
    deep: Deep = False,
    index_sanity_check: IndexSanityCheck = False,
    verify_index_only: VerifyIndexOnly = False,
    max_message_size: MaxMessageSize = None,
    rebuild: Rebuild = None,
    index_interval_bytes: IndexIntervalBytes = 4096,
    compare: Compare = None,
    jobs: Jobs = None,
    explain: Explain = False,
    output: OutputFormat | None = None,
) -> None:
    """Check indexes, logs, snapshots and checkpoints of partitions against each other.

    Reads every segment once and writes nothing. Exit code 0: no problems; 3: problems were found;
    1: a file could not be read. Findings of severity `info` are no problems.
    """
    from kcli.commands.verify.run import VerifyOptions, verify

    if explain and not paths:
        from kcli.commands.verify.printer import explanations, print_explanations

        print_explanations(chosen_format(output), explanations())
        return
    if not paths:
        raise MissingArgument("PATH...")
    wanted = VerifyOptions(
        paths,
        topics=frozenset(not_empty(topic, "topic") for topic in topics or ()),
        partitions=frozenset(partitions or ()),
        deep=deep,
        indexes_only=verify_index_only,
        sanity_only=index_sanity_check,
        rebuild=None if rebuild is None else str(rebuild),
        interval_bytes=index_interval_bytes,
        compare=None if compare is None else str(compare),
        jobs=jobs,
        max_message_size=max_message_size,
        explain=explain,
    )
    code = verify(wanted, output)
    if code:
        raise typer.Exit(code)
