"""Printing: results as a table, as the text of Kafka's tools or as JSON; notes and errors on stderr.

A result is a `NamedTuple` of plain values with a method `lines()`, and `tables()` if columns help. Only data
goes to stdout. rich is imported only for a table.

Nothing that is printed controls a terminal (`kcli.escapes`): tables and messages are escaped
everywhere, text and JSON only on a terminal. A pipe gets the bytes that Kafka's tools print.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from kcli.errors import KcliError, UsageError
from kcli.escapes import escaped, escaped_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text


class OutputFormat(StrEnum):
    TABLE = "table"
    TEXT = "text"
    JSON = "json"


class Result(Protocol):
    """What a command returns. An attribute `failures` holds the errors of the parts that failed."""

    def lines(self) -> Iterable[str]:
        """Return the lines that Kafka's tool prints."""


@runtime_checkable
class Tabular(Protocol):
    """A result that can be shown in columns."""

    def tables(self) -> Iterable[Table]:
        """Return the same facts as tables."""


@runtime_checkable
class Document(Protocol):
    """A result whose JSON differs from its fields."""

    def document(self) -> object:
        """Return the JSON document; errors and named tuples in it are converted."""


WIDEST = 1_000
"""The width of a table without a limit."""
GAP_WIDTH = 3
"""The space between two columns."""
BETWEEN_WORDS = r"\s+(?![kMGTPE]?B\b)"
"""Where a cell may be wrapped: a size such as `13.6 kB` is one word."""


class Table(NamedTuple):
    """Columns and rows; a column of numbers is right-aligned, also without a cell if it is in `numbers`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str | None = None
    numbers: Sequence[str] = ()


def chosen_format(output: OutputFormat | None) -> OutputFormat:
    """Return the requested format, by default a table on a terminal and text elsewhere."""
    if output is not None:
        return output
    return OutputFormat.TABLE if sys.stdout.isatty() else OutputFormat.TEXT


def print_result(result: Result, output: OutputFormat | None) -> None:
    match chosen_format(output):
        case OutputFormat.JSON:
            print_json(result)
        case OutputFormat.TABLE if isinstance(result, Tabular):
            print_tables(result.tables())
        case OutputFormat.TABLE:
            print_lines(escaped(line, keep="\t") for line in result.lines())
        case _:
            print_lines(result.lines())
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of data on stdout, with tabs as they are."""
    if sys.stdout.isatty():
        lines = (escaped(line, keep="\t") for line in lines)
    for line in lines:
        print(line)


def print_json(value: object, *, is_one_of_many: bool = False) -> None:
    """Print a JSON document, on one line unless it is the only one and goes to a terminal."""
    import json

    # An output in another encoding than UTF lacks characters, so JSON escapes them. StringIO has no encoding.
    escapes = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    if not sys.stdout.isatty():
        json.dump(plain(value), sys.stdout, ensure_ascii=escapes)
        print()
    else:
        text = json.dumps(plain(value), ensure_ascii=escapes, indent=None if is_one_of_many else 2)
        print(escaped_json(text))


def plain(value: object) -> object:
    """Return a value in JSON's types: named tuples by field, errors by message, other tuples as lists."""
    match value:
        case KcliError():
            return {"error": value.message, "hint": value.hint}
        case Document():
            return plain(value.document())
        case tuple() if hasattr(value, "_fields"):
            return {name: plain(getattr(value, name)) for name in value._fields}
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def print_tables(tables: Iterable[Table]) -> None:
    from rich.text import Text

    screen, part = console(), None
    for table in tables:
        if isinstance(part, Text):
            screen.print()  # behind blocks of lines
        for part in shown_table(table, screen.width):
            # The terminal may break lines of text that are too wide: what is copied from there is whole.
            screen.print(part, soft_wrap=isinstance(part, Text))


def shown_table(table: Table, width: int) -> Iterator[RichTable | Text]:
    """Yield the title and the table as rich prints them; a table that does not fit becomes blocks of lines.

    It fits if each column can be as wide as the longest word in it.
    """
    from rich.text import Text

    if table.title is not None:
        yield Text(escaped(table.title), style="bold")
    rows = [[escaped(cell_text(cell)) for cell in row] for row in table.rows]
    widths = column_widths([table.columns, *rows], width)
    if widths is not None:
        yield rich_table(table, rows, widths)
        return
    for number, row in enumerate(rows):
        lines = [*block_lines(table.columns, row), *([""] if number < len(rows) - 1 else [])]
        yield Text("\n".join(lines))


def column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns that take at most `width` together, None if that would cut a word."""
    import re

    from rich.cells import cell_len

    columns = [*zip(*rows, strict=True)]
    spare = width - GAP_WIDTH * (len(columns) - 1)
    most = [max(map(cell_len, column)) for column in columns]
    if sum(most) <= spare:
        return most
    widths = [
        max((cell_len(word) for cell in column for word in re.split(BETWEEN_WORDS, cell)), default=1)
        for column in columns
    ]
    spare -= sum(widths)
    if spare < 0:
        return None
    while wider := [number for number, each in enumerate(widths) if each < most[number]][:spare]:
        for number in wider:
            given = min(spare // len(wider), most[number] - widths[number])
            widths[number] += given
            spare -= given
    return widths


def block_lines(names: Sequence[str], cells: Iterable[str]) -> Iterator[str]:
    """Yield a line for each cell of a row."""
    for name, cell in zip(names, cells, strict=True):
        yield f"{name}: {cell}"


def console() -> Console:
    """Return rich's console on stdout."""
    from rich.console import Console

    return Console(file=sys.stdout, width=screen_width(), highlight=False, markup=False, emoji=False)


def screen_width() -> int:
    """Return the columns of the terminal; in a file or a pipe, tables are as wide as their cells need."""
    import os
    import shutil

    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return WIDEST


def rich_table(table: Table, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> RichTable:
    """Return a table for rich: a header and rows of texts, without vertical lines."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for index, name in enumerate(table.columns):
        cells = [row[index] for row in table.rows if row[index] is not None]
        numeric = (bool(cells) or name in table.numbers) and all(type(cell) is int for cell in cells)
        shown.add_column(name, justify="right" if numeric else "left", width=max(widths[index], 1))
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown


def cell_text(cell: object) -> str:
    """Return the text of a cell: lists with commas, None as a dash."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case list() | tuple():
            return ",".join(map(str, cell))
        case _:
            return str(cell)


def note(message: str, *, end: str = "\n") -> None:
    """Print a message of one line on stderr; a closed terminal or a full disk must not cost the result."""
    with suppress(OSError):
        print(escaped(message), end=end, file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Print a warning as one line on stderr."""
    note(f"warning: {one_line(message)}")


def print_errors(errors: Sequence[KcliError], output: OutputFormat | None, exit_code: int) -> None:
    """Print the errors that end a command on stderr, for `-o json` as one object on the last line.

    Its fields: `error` and `hint` (null without one) of the first, `code`, the exit code, and `more`, the
    others, if there are several.
    """
    if output is not OutputFormat.JSON:
        for error in errors:
            print_error(error)
        return
    import json

    first, *others = errors
    fields: dict[str, object] = {"error": one_line(first.message), "hint": first.hint, "code": exit_code}
    if others:
        fields["more"] = [plain(each) for each in others]
    with suppress(OSError):
        print(escaped_json(json.dumps(fields, ensure_ascii=False)), file=sys.stderr, flush=True)


def print_error(error: KcliError) -> None:
    """Print an error and its hint on stderr, one line each."""
    note(f"error: {one_line(error.message)}")
    if error.hint:
        note(f"hint: {one_line(error.hint)}")


def print_usage_error(message: str, hint: str | None, arguments: Sequence[str]) -> None:
    """Print an error of a command line that cannot be parsed, in the form that it asks for."""
    print_errors([UsageError(message, hint=hint)], asked_format(arguments), UsageError.exit_code)


def asked_format(arguments: Sequence[str]) -> OutputFormat | None:
    """Return the format that a command line asks for, which may be wrong in other parts."""
    asked = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            asked = following
        elif word.startswith("--output="):
            asked = word.removeprefix("--output=")
        elif word.startswith("-o"):
            asked = word.removeprefix("-o")
    return OutputFormat(asked) if asked in list(OutputFormat) else None


def one_line(message: str) -> str:
    """Return a message without line breaks, which a broker's text may contain."""
    return " ".join(message.split())
