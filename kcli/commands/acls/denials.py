"""`kcli acls denials`: what the authorizer of a running kcli broker has denied."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kcli.commands.acls.options import app
from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir
from kcli.commands.shared.formatting import moment_text
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import OutputFormat as Format
from kcli.commands.shared.output import Table, print_json, print_lines
from kcli.commands.shared.runner import command
from kcli.control_socket import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.5
OPERATION = "acls.denials"

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new denials until interrupted")]


class Denial(NamedTuple):
    """Something that a principal asked a node for and may not do; a request had `references` to it."""

    node: int
    time_ms: int
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    api: str
    references: int
    rule: str

    @classmethod
    def of(cls, row: dict[str, Any]) -> Denial:
        values = {**row, "references": row["count"]}
        return cls(**{name: values[name] for name in cls._fields})

    def line(self) -> str:
        """Return one line; the fields that `explain` needs come first."""
        return (
            f"{moment_text(self.time_ms)} node {self.node}: {self.principal} from {self.host} may not "
            f"{self.operation} {self.resource_type} {self.resource_name} ({self.api}, {self.rule})"
        )

    def cells(self) -> tuple[object, ...]:
        resource = f"{self.resource_type} {self.resource_name}"
        return (
            moment_text(self.time_ms),
            self.node,
            self.principal,
            self.host,
            self.operation,
            resource,
            self.api,
            self.rule,
        )


class Denials(NamedTuple):
    """The result of `acls denials`, the oldest first."""

    denials: Sequence[Denial]

    def lines(self) -> Iterator[str]:
        yield from (denial.line() for denial in self.denials)

    def tables(self) -> Iterator[Table]:
        columns = ("Time", "Node", "Principal", "Host", "Operation", "Resource", "Request", "Rule")
        yield Table(columns, [denial.cells() for denial in self.denials])


@command(app, "denials", example="kcli acls denials --follow")
def denials(
    follow: Follow = False, data_dir: DataDir = DEFAULT_DATA_DIR, output: OutputFormat | None = None
) -> Denials | None:
    """Show the last 200 denials of each node of a kcli broker.

    Apache Kafka writes the same into the log of `kafka.authorizer.logger`. `kcli acls explain` tells what
    would allow something.
    """
    after: dict[str, int] = {}
    found = _newer(data_dir, after)
    if not follow:
        return Denials(found)
    while True:
        if output is Format.JSON:
            for denial in found:
                print_json(denial, is_one_of_many=True)
        else:
            print_lines(denial.line() for denial in found)
        time.sleep(POLL_SECONDS)
        found = _newer(data_dir, after)


def _newer(data_dir: Path, after: dict[str, int]) -> list[Denial]:
    """Return the denials after the last known number of each node, which is changed."""
    rows = ask(data_dir, OPERATION, timeout_seconds=ANSWER_SECONDS, after=after)
    for row in rows:
        after[str(row["node"])] = row["number"]
    return sorted((Denial.of(row) for row in rows), key=lambda denial: denial.time_ms)
