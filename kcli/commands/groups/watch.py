"""`--watch`: repeats a result, in place on a terminal, else each below the last."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import trio
import typer

from kcli.commands.shared.interrupts import ending_with_reader, interruptible
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import (
    Table,
    Tabular,
    chosen_format,
    console,
    print_error,
    print_lines,
    print_result,
    shown_table,
)
from kcli.errors import Interrupted, KcliError
from kcli.escapes import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import ConsoleRenderable
    from rich.live import Live


class Watched(Protocol):
    """A result about groups, with the errors of parts that failed."""

    @property
    def groups(self) -> Sequence[object]: ...

    @property
    def failures(self) -> Iterable[KcliError]: ...

    def lines(self) -> Iterable[str]: ...


async def watch(
    take: Callable[[], Awaitable[Watched]],
    seconds: float,
    output: OutputFormat | None,
    time_text: Callable[[], str] = lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z"),
) -> None:
    """Show what `take` returns every `seconds`. An interrupt ends it with exit code 130.

    An error of the first call ends it too; later errors are shown.
    """
    async with interruptible() as scope:
        with scope:
            # Ctrl-C ends the reader too: then the interrupt must win over the broken pipe.
            async with ending_with_reader():
                if chosen_format(output) is OutputFormat.TABLE and sys.stdout.isatty():
                    await watch_in_place(take, seconds, time_text)
                else:
                    await watch_below(take, seconds, output, time_text)
    if scope.cancel_called:
        raise typer.Exit(Interrupted.exit_code)


async def watch_below(
    take: Callable[[], Awaitable[Watched]],
    seconds: float,
    output: OutputFormat | None,
    time_text: Callable[[], str],
) -> None:
    """Print one result below the other, each except JSON below a line with the time."""
    is_first = True
    while True:
        result = await take_result(take, is_first=is_first)
        if result is not None:
            if chosen_format(output) is not OutputFormat.JSON:
                print_lines([time_text()] if is_first else ["", time_text()])
            print_result(result, output)
        is_first = False
        await trio.sleep(seconds)


async def take_result(take: Callable[[], Awaitable[Watched]], *, is_first: bool) -> Watched | None:
    """Take a result and print its errors; return None if a later call fails."""
    try:
        result = await take()
    except KcliError as error:
        if is_first:
            raise
        print_error(error)
        return None
    for each in result.failures:
        if is_first and not result.groups:
            raise each
        print_error(each)
    return result


async def watch_in_place(
    take: Callable[[], Awaitable[Watched]], seconds: float, time_text: Callable[[], str]
) -> None:
    from rich.live import Live

    first = await take_result(take, is_first=True)
    with Live(console=console(), auto_refresh=False) as live:
        show(live, first, time_text())
        while True:
            await trio.sleep(seconds)
            try:
                result = await take()
            except KcliError as passing:
                live.console.print(f"error: {escaped(passing.message)}", markup=False)
                continue
            show(live, result, time_text())


def show(live: Live, result: Watched | None, heading: str) -> None:
    from rich.console import Group
    from rich.text import Text

    parts: list[ConsoleRenderable] = [Text(heading, style="dim")]
    for table in result.tables() if isinstance(result, Tabular) else list[Table]():
        parts.extend(shown_table(table, live.console.width))
    errors = [
        Text(f"error: {escaped(each.message)}") for each in (result.failures if result is not None else ())
    ]
    live.update(Group(*parts, *errors), refresh=True)
