"""The options that several commands share, each named as in Kafka's tools and declared once.

They are `Annotated` aliases. A command lists those that it uses as parameters, or an `OptionGroup` of them;
`kcli.commands.shared.runner.command` adds `--output` and `--verbose` to every command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from kcli.commands.shared.arguments import not_empty
from kcli.commands.shared.output import OutputFormat as OutputFormat
from kcli.errors import MissingArgument, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from kcli.client.client import Client

Given = TypeVar("Given")


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    from kcli.commands.shared.completion import topic_names

    return topic_names(context.params, incomplete)


def complete_config(context: typer.Context, incomplete: str) -> list[str]:
    from kcli.commands.shared.completion import config_names

    return config_names(context.params, incomplete)


def complete_profile(incomplete: str) -> list[str]:
    from kcli.commands.shared.profiles import profile_names

    return profile_names(incomplete)


# If it is not given, `bootstrap.servers` of the properties counts before the default.
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="KCLI_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first  [env var: KCLI_BOOTSTRAP_SERVER; default: localhost:9092]",
        show_envvar=False,
    ),
]
CommandConfig = Annotated[Path | None, typer.Option(metavar="FILE", help="A Java client properties file")]
Property = Annotated[
    list[str] | None,
    typer.Option("-X", "--command-property", metavar="NAME=VALUE", help="A client property (repeatable)"),
]
Profile = Annotated[
    str | None,
    typer.Option(
        envvar="KCLI_PROFILE",
        metavar="NAME",
        help="Client properties of ~/.config/kcli/profiles.toml  [env var: KCLI_PROFILE]",
        show_envvar=False,
        autocompletion=complete_profile,
    ),
]


class ClusterAddress(NamedTuple):
    """The cluster that a command talks to, and the properties of its client."""

    bootstrap_server: BootstrapServer = None
    command_config: CommandConfig = None
    command_property: Property = None
    profile: Profile = None

    def connect(self, *, timeout_ms: int | None = None) -> AbstractAsyncContextManager[Client]:
        """Return a context of a client, connected within `default.api.timeout.ms` and `timeout_ms`."""
        from kcli.commands.shared.session import open_client

        return open_client(
            self.bootstrap_server,
            self.command_config,
            self.command_property,
            profile=self.profile,
            timeout_ms=timeout_ms,
        )


Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        help="Format of the result: table on a terminal, text otherwise; with json, errors are JSON, too",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error")]
TopicArgument = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic", autocompletion=complete_topic)
]
TopicsArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        help="The topic, or a regular expression that matches the whole names of several",
        autocompletion=complete_topic,
    ),
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", hidden=True, autocompletion=complete_topic)
]


def one_topic(argument: str | None, option: str | None) -> str:
    """Return the topic given as an argument or with Kafka's `--topic`: exactly one is required."""
    topic = one_topic_or_none(argument, option)
    if topic is None:
        raise MissingArgument("TOPIC")
    return topic


def one_topic_or_none(argument: str | None, option: str | None) -> str | None:
    """Return the topic given as an argument or with `--topic`, None for neither; both are an error."""
    if argument is not None and option is not None:
        raise UsageError("`TOPIC` and `--topic` exclude each other")
    topic = option if argument is None else argument
    return None if topic is None else not_empty(topic, "topic")


def renamed(old: Given | None, old_option: str, new: Given | None, new_option: str) -> Given | None:
    """Return the value of an option that KIP-1147 renamed; the two names exclude each other."""
    if old is None:
        return new
    if new is not None:
        raise UsageError(f"`{old_option}` and `{new_option}` exclude each other")
    from kcli.commands.shared.output import note

    note(f"warning: `{old_option}` is an old name of `{new_option}`")
    return old
