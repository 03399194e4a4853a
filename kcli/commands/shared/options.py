"""The options that several commands share, each named as in Kafka's tools and declared once.

They are `Annotated` aliases: a command lists those that it uses as parameters. `--output` and
`--verbose` belong to every command and are added by `kcli.commands.shared.runner.command`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from kcli.commands.shared import completion
from kcli.commands.shared.output import OutputFormat as OutputFormat
from kcli.errors import MissingArgument, UsageError

Given = TypeVar("Given")


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a topic from the cluster."""
    return completion.topic_names(context.params, incomplete)


def complete_config(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a configuration from the cluster."""
    return completion.config_names(context.params, incomplete)


# None unless it is given: then `bootstrap.servers` of the properties counts before the default.
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="KCLI_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first  [env var: KCLI_BOOTSTRAP_SERVER; default: localhost:9092]",
        show_envvar=False,
        show_default=False,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="A Java client properties file"),
]
Property = Annotated[
    list[str] | None,
    typer.Option("-X", "--command-property", metavar="NAME=VALUE", help="A client property (repeatable)"),
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output", "-o", help="Format of the result: table on a terminal, text otherwise", show_default=False
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error")]
TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="The topic", autocompletion=complete_topic, show_default=False),
]
TopicsArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        help="The topic, or a regular expression that matches the whole names of several",
        autocompletion=complete_topic,
        show_default=False,
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", hidden=True, autocompletion=complete_topic),
]


def one_topic(argument: str | None, option: str | None) -> str:
    """Return the topic given as an argument or with Kafka's `--topic`; exactly one of them must be."""
    topic = one_topic_or_none(argument, option)
    if not topic:
        raise MissingArgument("TOPIC")
    return topic


def one_topic_or_none(argument: str | None, option: str | None) -> str | None:
    """Return the topic given as an argument or with `--topic`, or None; both is an error."""
    if argument is not None and option is not None:
        raise UsageError("`TOPIC` and `--topic` exclude each other")
    return option if argument is None else argument


def renamed(old: Given | None, old_option: str, new: Given | None, new_option: str) -> Given | None:
    """Return an option's value that had another name before KIP-1147; only one of the two may be used."""
    if old is None:
        return new
    if new is not None:
        raise UsageError(f"`{old_option}` and `{new_option}` exclude each other")
    from kcli.commands.shared.output import note

    note(f"warning: `{old_option}` is an old name of `{new_option}`")
    return old
