"""Command lines that run without Typer: `broker start`, and `dump-log` and `verify-index` with few options.

Importing Typer and declaring all options of a command to it takes a fifth of a broker's start, and longer
than reading hundreds of megabytes. A line with an unknown word goes to Typer. Errors are judged and printed
by the runner, like all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.commands.broker.start import StartOptions
    from kcli.commands.shared.output import OutputFormat

_SWITCHES = {
    "dump-log": ("--print-data-log", "--deep-iteration", "--continue"),
    "verify-index": ("--deep", "--verify-index-only", "--index-sanity-check"),
}
_COMPLETE_VARIABLE = "_KCLI_COMPLETE"


class Line(NamedTuple):
    """A parsed command line of `dump-log` or `verify-index`."""

    paths: Sequence[str]
    switches: frozenset[str]
    output: OutputFormat | None


def run_shortcut(arguments: Sequence[str]) -> int | None:
    """Run a command line and return its exit code; return None, with nothing done, if it needs Typer."""
    try:
        body = None if _COMPLETE_VARIABLE in os.environ else body_of(arguments)
        if body is None:
            return None
        code = body()
        sys.stdout.flush()
    except BaseException as error:
        return judge(error, arguments)
    return code


def body_of(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the function for a command line, None if it needs Typer."""
    if arguments[:2] == ["broker", "start"]:
        from kcli.commands.broker.start import parse_start

        options = parse_start(arguments[2:])
        return None if options is None else partial(start_broker, options)
    line = parse(arguments)
    if line is None:
        return None
    return partial(dump_log if arguments[0] == "dump-log" else verify_index, line)


def start_broker(options: StartOptions) -> int:
    """Serve until the broker stops; return the exit code."""
    from kcli.commands.broker import start as broker_start

    serving = broker_start.start_broker(options)
    if serving is not None:
        import trio

        trio.run(lambda: serving)
    return 0


def parse(arguments: Sequence[str]) -> Line | None:
    """Parse a command line of paths, switches and an output format; return None for any other."""
    from kcli.commands.shared.output import OutputFormat

    known = _SWITCHES.get(arguments[0] if arguments else "", ())
    paths, switches, output = [], set(), None
    words = iter(arguments[1:])
    for word in words:
        if word in ("-o", "--output"):
            name = next(words, "")
            if name not in list(OutputFormat):
                return None
            output = OutputFormat(name)
        elif word in known:
            switches.add(word)
        elif word and not word.startswith("-"):
            paths.append(word)
        else:
            return None
    return Line(paths, frozenset(switches), output) if known and paths else None


def dump_log(line: Line) -> int:
    from kcli.commands.dump.decoders import PlainDecoder
    from kcli.commands.dump.options import DumpOptions, Filter
    from kcli.commands.dump.run import dump
    from kcli.forensics.contents.log_files import Selection

    prints = "--print-data-log" in line.switches
    options = DumpOptions(
        PlainDecoder(),
        Filter(),
        prints_contents=prints,
        deep=prints or "--deep-iteration" in line.switches,
        continues="--continue" in line.switches,
    )
    dump(line.paths, Selection(), options, line.output)
    return 0


def verify_index(line: Line) -> int:
    from kcli.commands.verify.run import VerifyOptions, verify

    wanted = VerifyOptions(
        line.paths,
        deep="--deep" in line.switches,
        indexes_only="--verify-index-only" in line.switches,
        sanity_only="--index-sanity-check" in line.switches,
    )
    return verify(wanted, line.output)


def refuse(message: str, arguments: Sequence[str]) -> None:
    """Print an error of a command line that nothing can parse."""
    from kcli.commands.shared.output import print_usage_error

    print_usage_error(message, None, arguments)


def judge(error: BaseException, arguments: Sequence[str]) -> int:
    """Print an error of a command line as the runner does, and return the exit code."""
    import typer

    from kcli.commands.shared.output import asked_format
    from kcli.commands.shared.runner import run

    def fail() -> None:
        raise error

    try:
        run(fail, output=asked_format(arguments), verbose="--verbose" in arguments)
    except typer.Exit as ended:
        return ended.exit_code
    return 0
