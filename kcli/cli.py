"""The root Typer application: it lists all commands and imports only those on the command line.

`COMMANDS` has every command's name, module and one-line help. A command that is not on the command line is a
placeholder with that help, so `kcli --help` imports no command. Verbs that are not on it are placeholders
too: reading the options of all verbs would take a twentieth of a short command's time.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from typer.models import CommandInfo

COMMANDS = {
    "broker": ("kcli.commands.broker.app", "Start, stop and inspect a development broker."),
    "topics": ("kcli.commands.topics.app", "Create, list, describe, alter and delete topics."),
    "configs": (
        "kcli.commands.configs.app",
        "Describe and alter configurations of topics, brokers and groups, and quotas of clients.",
    ),
    "produce": ("kcli.commands.produce.app", "Send lines of files or standard input to a topic."),
    "consume": ("kcli.commands.consume.app", "Print the records of a topic."),
    "consumer-groups": (
        "kcli.commands.groups.app",
        "List, describe, reset, clone and delete consumer groups and their offsets.",
    ),
    "transactions": (
        "kcli.commands.transactions.app",
        "List, describe and end transactions, and find those that hang.",
    ),
    "get-offsets": ("kcli.commands.topics.offsets", "Print partition offsets: earliest, latest or by time."),
    "delete-records": ("kcli.commands.topics.records", "Delete the records below given offsets."),
    "reassign-partitions": (
        "kcli.commands.reassignment.app",
        "Propose, start, verify, list and cancel moves of partitions between brokers.",
    ),
    "preferred-replica-election": (
        "kcli.commands.reassignment.election",
        "Make the first replica of each partition its leader again.",
    ),
    "dump-log": ("kcli.commands.dump.app", "Print what log files hold, and explain what is wrong with them."),
    "verify-index": ("kcli.commands.verify.app", "Check indexes, logs and checkpoints against each other."),
    "spark-export": (
        "kcli.commands.export.spark_export",
        "Export topics to Parquet files, from brokers or from log directories.",
    ),
    "spark-import": ("kcli.commands.export.spark_import", "Write the records of an export to a topic again."),
    "log-dirs": (
        "kcli.commands.log_dirs.app",
        "Describe the log directories of brokers, and move replicas between them.",
    ),
    "cluster": (
        "kcli.commands.cluster.app",
        "Show the cluster's id, its nodes and the APIs they speak; forget lost nodes.",
    ),
    "acls": ("kcli.commands.acls.app", "Say who may do what, list it, and explain why something is denied."),
    "users": ("kcli.commands.users.app", "List, create and delete users who log in by SCRAM."),
    "tls": (
        "kcli.commands.tls.app",
        "Show, make and reload certificates of listeners and clients.",
    ),
    "completion": ("kcli.commands.completion", "Print the completion script of a shell."),
}

COMPLETE_VARIABLE = "_KCLI_COMPLETE"

TYPERS_WORDS = {
    r"'([^']*)'": r"`\1`",
    r"\. Choose from:": ": one of",
    r"is not a valid int(eger)?( range)?\b": "is not a whole number",
    r"is not a valid float( range)?\b": "is not a number",
}
"""Patterns in Typer's messages, and the words of kcli's messages for them."""

SUGGESTION = r" Did you mean .*\?$"
"""The end of Typer's message for an unknown command, which kcli replaces with a hint."""

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage or invalid input file, "
    "3 a check found problems, 130 interrupted. With -o json, an error is an object on the last line of "
    "standard error, with the fields error, hint and code"
)


LONGEST_SUMMARY = 200


class WholeSummaries(TyperGroup):
    """A group whose help does not shorten the summaries of commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # Typer's own click
        summaries = [
            (name, command.get_short_help_str(LONGEST_SUMMARY))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(summaries)


def print_version(requested: bool) -> None:
    """Print the version and exit before any command is parsed."""
    if requested:
        from kcli import __version__

        typer.echo(f"kcli {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Run a Kafka-compatible development broker, and administer it or any Apache Kafka cluster."""


def placeholder() -> None:
    """Do nothing, in place of a command that is not on the command line."""


def build_app(names: Collection[str] | None = None) -> typer.Typer:
    """Return the root application with the commands in `names`, all if None; others are placeholders."""
    app = typer.Typer(
        name="kcli",
        cls=WholeSummaries,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=EPILOG)(root)
    for name, (module, summary) in COMMANDS.items():
        if names is None or name in names:
            app.add_typer(with_named(import_module(module).app, names), cls=WholeSummaries)
        else:
            app.command(name, help=summary)(placeholder)
    return app


def with_named(group: typer.Typer, names: Collection[str] | None) -> typer.Typer:
    """Return a group, and the groups in it, with the commands in `names`; others are placeholders."""
    made = copy(group)
    made.registered_commands = [
        each if names is None or each.name in names else listed_only(each)
        for each in group.registered_commands
    ]
    made.registered_groups = [copy(each) for each in group.registered_groups]
    for inner in made.registered_groups:
        inner.cls = WholeSummaries
        if inner.typer_instance is not None:
            inner.typer_instance = with_named(inner.typer_instance, names)
    return made


def listed_only(command: CommandInfo) -> CommandInfo:
    """Return a placeholder with the help of a command."""
    made = copy(command)
    made.help = command.help or getattr(command.callback, "__doc__", None)
    made.callback = placeholder
    return made


def named_words(arguments: Sequence[str]) -> set[str]:
    """Return every word that may name a command, including those of a line to be completed."""
    line = f"{os.environ.get('COMP_WORDS', '')} {os.environ.get('_TYPER_COMPLETE_ARGS', '')}"
    return {*arguments, *line.split()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run kcli with `arguments`, by default those of the process, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app = build_app(named_words(arguments))
        if COMPLETE_VARIABLE in os.environ:
            from typer.completion import get_completion_inspect_parameters

            get_completion_inspect_parameters()  # called for its side effect: it registers the shells
        code = app(arguments, prog_name="kcli", complete_var=COMPLETE_VARIABLE, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):  # a running command reports its interrupts itself
        code = 130
    except (OSError, SystemExit) as error:
        # The help could not be written: commands report their own errors. For a closed pipe Typer would end
        # the process.
        met = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(met, OSError):
            raise
        from kcli.commands.shortcut import judge

        code = judge(met, arguments)
    except Exception as error:
        # Typer's usage errors have no public base class in every version that kcli accepts.
        if not hasattr(error, "format_message"):
            raise
        code = int(getattr(error, "exit_code", 2))
        with suppress(OSError):  # stderr is closed or its disk full
            report_usage_error(error, arguments)
    return code if isinstance(code, int) else 0


def report_usage_error(error: Exception, arguments: Sequence[str]) -> None:
    """Print a usage error the way the runner prints all other errors."""
    if hasattr(error, "possibilities"):
        error.possibilities = None  # they are in the hint
    message: str = error.format_message()  # type: ignore[attr-defined]
    if message.startswith("Usage:"):  # a group without a verb: the message is the group's help
        print(message, file=sys.stderr, flush=True)
        return
    from kcli.commands.shared.output import print_usage_error

    message = re.sub(SUGGESTION, "", " ".join(message.split())).rstrip(".")
    for typers, plain in TYPERS_WORDS.items():
        message = re.sub(typers, plain, message)
    context: typer.Context | None = getattr(error, "ctx", None)
    if context is None:  # the value of the last option is missing
        hint = f"{called_path(arguments)} --help"
    else:
        from kcli.commands.usage_hints import usage_hint

        hint = usage_hint(error, context, arguments=arguments)
    print_usage_error(f"{message[:1].lower()}{message[1:]}", hint, arguments)


def called_path(arguments: Sequence[str]) -> str:
    """Return the command at the start of a command line, such as `kcli topics create`."""
    here: Any = typer.main.get_command(build_app(named_words(arguments)))
    path = ["kcli"]
    for word in arguments:
        if word not in getattr(here, "commands", ()):
            break
        here = here.commands[word]
        path.append(word)
    return " ".join(path)
