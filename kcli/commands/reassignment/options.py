"""The Typer application `kcli reassign-partitions`, and the options that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.errors import MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.commands.reassignment.plan import Plan

app = typer.Typer(
    name="reassign-partitions",
    help="Propose, start, verify, list and cancel moves of partitions between brokers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT_TIMEOUT_MS = 10_000

PlanArgument = Annotated[
    Path | None, typer.Argument(metavar="PLAN", help="The plan: a JSON file as Kafka's tool writes it")
]
PlanOption = Annotated[Path | None, typer.Option("--reassignment-json-file", metavar="FILE", hidden=True)]
PreserveThrottles = Annotated[
    bool, typer.Option("--preserve-throttles", help="Keep the throttles of brokers and topics")
]
TimeoutMs = Annotated[
    int,
    typer.Option(
        "--timeout", min=0, metavar="MS", help="How long a move to another log directory may take to start"
    ),
]


def read_plan(argument: Path | None, option: Path | None) -> Plan:
    from kcli.commands.reassignment.plan import parse_plan
    from kcli.commands.shared.input_files import read_text

    if argument is not None and option is not None:
        raise UsageError("`PLAN` and `--reassignment-json-file` exclude each other")
    path = argument or option
    if path is None:
        raise MissingArgument("PLAN")
    return parse_plan(read_text(path), str(path))


def refuse_existing(path: Path | None, option: str) -> None:
    """Raise `UsageError` for a file that exists: it may be the only rollback plan."""
    if path is not None and path.exists():
        raise UsageError(f"`{option}` exists already: {path}", hint="name another file")


def write_new(path: Path | None, text: str) -> None:
    """Write a plan to a new file; None writes none."""
    if path is None:
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error
