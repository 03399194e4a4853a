"""`kcli broker requests`: measures the request times of a running broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kcli.commands.broker.node import DEFAULT_DATA_DIR, DataDir, complete_node
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import OutputFormat, Table
from kcli.control_socket import running_operation
from kcli.errors import Interrupted, KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.control_socket import RunningOperation

ANSWER_SECONDS = 10.0
"""How long the answer may take after the measurement."""
MOST_SECONDS = 3600
STEP_SECONDS = 0.1
QUANTITIES = ("mean", "p50", "p99", "max")

Seconds = Annotated[int, typer.Option(min=1, max=MOST_SECONDS, metavar="N", help="How long to measure")]
NodeOption = Annotated[
    int | None,
    typer.Option(metavar="ID", min=0, help="Requests to this node only", autocompletion=complete_node),
]


class Times(NamedTuple):
    """A distribution of times in milliseconds."""

    mean: float
    p50: float
    p99: float
    max: float

    def shown(self) -> tuple[str, ...]:
        return tuple(map(milliseconds_text, self))

    def line(self) -> str:
        return " ".join(f"{name} {text}" for name, text in zip(QUANTITIES, self.shown(), strict=True))


class ApiRow(NamedTuple):
    """The requests of one API to one node."""

    node: int
    api: str
    requests: int
    per_second: float
    local_ms: Times
    remote_ms: Times
    total_ms: Times

    @property
    def times(self) -> dict[str, Times]:
        return {"local": self.local_ms, "remote": self.remote_ms, "total": self.total_ms}

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows of a table, one for each kind of time."""
        about = (self.api, str(self.requests), f"{self.per_second:.1f}")
        blank = ("",) * len(about)
        return [
            (*(about if index == 0 else blank), name, *times.shown())
            for index, (name, times) in enumerate(self.times.items())
        ]

    def line(self) -> str:
        listed = "".join(f", {name} ms {each.line()}" for name, each in self.times.items())
        return f"{self.api}: {counted(self.requests, 'request')}, {self.per_second:.1f}/s{listed}"


class RequestReport(NamedTuple):
    """The result of `broker requests`; `nodes` were measured for `seconds`."""

    seconds: float
    nodes: tuple[int, ...]
    apis: tuple[ApiRow, ...]

    def lines(self) -> list[str]:
        several = len(self.nodes) > 1
        return [f"node {row.node}: {row.line()}" if several else row.line() for row in self.apis]

    def tables(self) -> list[Table]:
        what = f"{self.seconds:.1f} s, times in ms"
        titles = {node: f"node {node}, {what}" if len(self.nodes) > 1 else what for node in self.nodes}
        by_node = {node: [row for row in self.apis if row.node == node] for node in self.nodes}
        return [_table(rows, titles[node]) for node, rows in by_node.items() if rows]


def _table(rows: Sequence[ApiRow], title: str) -> Table:
    lines = [
        ("API", "Requests", "/s", "Time", *QUANTITIES),
        *(cells for row in rows for cells in row.cells()),
    ]
    header, *body = zip(*map(_aligned, zip(*lines, strict=True)), strict=True)
    return Table(header, body, title)


def _aligned(column: Sequence[str]) -> list[str]:
    _, *cells = column
    is_text = any(cell and not cell[0].isdecimal() for cell in cells)
    width = 0 if is_text else max(map(len, column))
    return [cell.rjust(width) for cell in column]


async def requests(
    *,
    seconds: Seconds = 5,
    node: NodeOption = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputFormat | None = None,
) -> None:
    """Measure how long the running broker takes for requests of each API.

    Local time is the time of the handler. Remote time is the wait after that: of a fetch for records, of a
    write with acks=all for replicas, of a group member for the others, and of any request that a quota
    delays. Total is the sum. So a consumer that has read everything has a remote time of about its
    `fetch.max.wait.ms`, and a lagging consumer has none. Work that is interrupted to let other requests run,
    such as batches above 1 MiB and old record formats, counts as remote too. The time that requests wait in
    sockets is not measured.

    Fetches count as `FetchConsumer` or, from other brokers, `FetchFollower`, and together as `Fetch`, as in
    Kafka's metrics. Nodes of one process copy from one another without connections; these fetches are not
    measured. A request counts if it comes and is answered, or needs no answer, during the measurement. p50
    and p99 are exact to 1.6 %; mean and maximum are exact.

    Ctrl-C ends the measurement early and shows its results; so does the stop of the broker, with exit code 1.
    Several measurements can run at once. Without one, requests cost nothing more.
    """
    from kcli.commands.shared.interrupts import ending_with_reader, interruptible
    from kcli.commands.shared.output import note, print_result

    chosen = {} if node is None else {"node": node}
    async with interruptible() as scope:
        with running_operation(
            data_dir.absolute(), "requests.measure", seconds=seconds, **chosen
        ) as operation:
            with scope:
                async with ending_with_reader():
                    await _await_answer(operation, seconds)
            if scope.cancel_called:
                operation.finish()
            answer = operation.result(timeout_seconds=ANSWER_SECONDS)
    report = RequestReport(answer["seconds"], tuple(answer["nodes"]), tuple(map(_row, answer["apis"])))
    print_result(report, output)
    if not report.apis:
        note(f"no request came and was answered within {report.seconds:.1f} s")
    if scope.cancel_called:
        raise typer.Exit(Interrupted.exit_code)
    if report.seconds < seconds:
        raise KcliError(
            f"the broker was stopped after {report.seconds:.1f} s of {seconds}",
            hint="the results are those until then",
        )


async def _await_answer(operation: RunningOperation, seconds: int) -> None:
    """Return when the answer comes or is overdue; show the elapsed time until then."""
    import trio

    from kcli.commands.shared.progress import time_bar

    began = trio.current_time()
    with time_bar("measuring", seconds) as show, trio.move_on_after(seconds + ANSWER_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(_show_time, began, show))
            await trio.lowlevel.wait_readable(operation.fileno())
            nursery.cancel_scope.cancel()


async def _show_time(began: float, show: Callable[[float], None]) -> None:
    import trio

    while True:
        show(trio.current_time() - began)
        await trio.sleep(STEP_SECONDS)


def _row(row: dict[str, Any]) -> ApiRow:
    times = {name: Times(**row[name]) for name in ("local_ms", "remote_ms", "total_ms")}
    return ApiRow(**{**row, **times})


def milliseconds_text(milliseconds: float) -> str:
    """Return a time with about four digits."""
    if milliseconds < 9.9995:
        return f"{milliseconds:.3f}"
    return f"{milliseconds:.1f}" if milliseconds < 999.95 else f"{milliseconds:.0f}"
