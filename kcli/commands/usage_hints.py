"""Hints for an unknown command or option: the nearest name, or kcli's word for Kafka's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.errors import nearest_hint

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import typer


SCRIPTS = {
    "broker-api-versions": "kcli cluster api-versions",
    "cluster": "kcli cluster",
    "configs": "kcli configs",
    "acls": "kcli acls",
    "console-consumer": "kcli consume",
    "console-producer": "kcli produce",
    "consumer-groups": "kcli consumer-groups",
    "delete-records": "kcli delete-records",
    "dump-log": "kcli dump-log",
    "get-offsets": "kcli get-offsets",
    "groups": "kcli consumer-groups list",
    "leader-election": "kcli preferred-replica-election",
    "log-dirs": "kcli log-dirs",
    "metadata-shell": "kcli dump-log --cluster-metadata-decoder",
    "preferred-replica-election": "kcli preferred-replica-election",
    "reassign-partitions": "kcli reassign-partitions",
    "replica-verification": "kcli verify-index",
    "server-start": "kcli broker start",
    "server-stop": "kcli broker stop",
    "topics": "kcli topics",
    "transactions": "kcli transactions",
}
"""Kafka's scripts, without `kafka-` and `.sh`, and the commands that do the same."""

OTHER_SCRIPTS = {
    "storage": "`kcli broker start` formats its directories by itself",
    **dict.fromkeys(
        (
            "client-metrics",
            "console-share-consumer",
            "consumer-perf-test",
            "delegation-tokens",
            "e2e-latency",
            "features",
            "jmx",
            "metadata-quorum",
            "producer-perf-test",
            "run-class",
            "share-consumer-perf-test",
            "share-groups",
            "streams-application-reset",
            "streams-groups",
            "verifiable-consumer",
            "verifiable-producer",
        ),
        "kcli has no such command; Kafka's own tool works with a kcli broker if that has the API",
    ),
}
"""Kafka's scripts without a command here, and what to do instead."""

NO_BENCHMARK = "kcli measures no throughput; `kafka-producer-perf-test` works with its broker"
NO_PAGE = "kcli has no web page: commands show tables on a terminal"
WORDS = {
    **dict.fromkeys(("config", "conf", "settings"), "kcli configs describe"),
    **dict.fromkeys(("group", "consumer-group", "lag"), "kcli consumer-groups describe"),
    **dict.fromkeys(("topic", "list", "ls"), "kcli topics list"),
    **dict.fromkeys(("create", "new"), "kcli topics create"),
    **dict.fromkeys(("delete", "rm"), "kcli topics delete"),
    **dict.fromkeys(("producer", "send", "publish"), "kcli produce"),
    **dict.fromkeys(("consumer", "read", "tail", "cat", "subscribe"), "kcli consume"),
    **dict.fromkeys(("offsets", "offset"), "kcli get-offsets"),
    **dict.fromkeys(("start", "server", "serve", "up", "run"), "kcli broker start"),
    **dict.fromkeys(("stop", "down"), "kcli broker stop"),
    **dict.fromkeys(("status", "ps"), "kcli broker status"),
    **dict.fromkeys(("nodes", "brokers", "metadata"), "kcli cluster nodes"),
    **dict.fromkeys(("dump", "log", "logs"), "kcli dump-log"),
    **dict.fromkeys(("verify", "check", "fsck"), "kcli verify-index"),
    **dict.fromkeys(("export", "parquet"), "kcli spark-export"),
    "import": "kcli spark-import",
    **dict.fromkeys(("reassign", "drain", "rebalance"), "kcli reassign-partitions"),
    **dict.fromkeys(("bench", "benchmark", "perf"), NO_BENCHMARK),
    **dict.fromkeys(("ui", "web", "console", "top", "dashboard"), NO_PAGE),
    "version": "kcli --version",
    "help": "kcli --help",
}
"""Words that people try first, and the commands that they look for."""

SINGULARS = {
    "config": "describe alter",
    "consumer-group": "list describe members reset-offsets delete",
    "topic": "create list describe alter delete",
}
"""Nouns of kcli without their s, and the verbs after which the plural is meant."""

VERBS = {
    "kcli cluster": {
        "api-version": "kcli cluster api-versions",
        "broker-api-versions": "kcli cluster api-versions",
        "cluster-id": "kcli cluster id",
        "list-endpoints": "kcli cluster nodes",
    },
    "kcli consumer-groups": {
        "copy": "kcli consumer-groups clone",
        "reset": "kcli consumer-groups reset-offsets",
    },
}
"""Kafka's sub-commands and other words for kcli's, by the command that they are typed after."""

FORMAT_HINTS = {
    "--json": "`-o json` prints JSON",
    "--format": "`-o json`, `-o text` and `-o table` are the formats of the output",
    **dict.fromkeys(("--table", "--text"), "`-o table` and `-o text` are the formats of the output"),
}
"""What other programs call `--output`."""

OPTIONS = {
    "--broker-list": "`-b HOST:PORT` names the brokers",
    "--zookeeper": "no ZooKeeper is asked: `-b HOST:PORT` names the brokers",
}
"""Former options of Kafka's tools that connect to brokers, and what to do instead."""

SYNONYMS = {
    **dict.fromkeys(("--remove", "--unset", "--reset"), ("--delete", "--delete-config")),
    "--set": ("--add", "--config"),
}
"""Other words for options that change configurations; of these, the one that a command has is meant."""


def hint_for(path: str, word: str) -> str | None:
    """Return what kcli has for a word of Kafka's after `path`, None if it has nothing."""
    if path != "kcli":
        return VERBS.get(path, {}).get(word)
    name = word.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return SCRIPTS.get(name) or OTHER_SCRIPTS.get(name) or WORDS.get(name.lower())


def usage_hint(error: Exception, context: typer.Context, *, arguments: Sequence[str]) -> str:
    """Return a hint: kcli's word for Kafka's, a similar word, or the command that shows the help."""
    option, hint = getattr(error, "option_name", None), None
    if unknown := re.match(r"No such command '(.*?)'", error.format_message()):  # type: ignore[attr-defined]
        hint = plural_hint(unknown[1], arguments) or command_hint(unknown[1], context)
    elif option is not None:
        hint = dashes_hint(option, context) or option_hint(option, context) or order_hint(context, arguments)
    return hint or f"{context.command_path} --help"


def command_hint(word: str, context: typer.Context) -> str | None:
    """Return a hint for an unknown command."""
    return hint_for(context.command_path, word) or nearest_hint(word, commands_of(context))


def plural_hint(word: str, arguments: Sequence[str]) -> str | None:
    """Return the command for a noun of kcli without its final s, if one of its verbs follows."""
    following = arguments[arguments.index(word) + 1 :][:1] if word in SINGULARS else ()
    return next((f"kcli {word}s {verb}" for verb in following if verb in SINGULARS[word].split()), None)


def dashes_hint(option: str, context: typer.Context) -> str | None:
    """Return a hint for a verb that is written with dashes."""
    verb = option.removeprefix("--")
    return f"a verb has no dashes: {context.command_path} {verb}" if verb in commands_of(context) else None


def order_hint(context: typer.Context, arguments: Sequence[str]) -> str | None:
    """Return a hint for a verb that comes after an option of its own."""
    dashed = [word for word in arguments if word.startswith("--")]
    words = (word.removeprefix("--") for word in (*dashed, *arguments))
    verb = next((word for word in words if word in commands_of(context)), None)
    kind = "verb" if context.parent else "command"
    return f"the {kind} comes before its options: {context.command_path} {verb}" if verb else None


def option_hint(option: str, context: typer.Context) -> str | None:
    """Return what replaces an unknown option, or a similar option."""
    parameters = context.command.params
    if any("--bootstrap-server" in each.opts for each in parameters) and option in OPTIONS:
        return OPTIONS[option]
    if option in FORMAT_HINTS:
        if any("--output" in each.opts for each in parameters):
            return FORMAT_HINTS[option]
        if commands_of(context):
            return f"{FORMAT_HINTS[option]}; it follows a command: kcli topics list -o json"
    listed = [each for each in parameters if not getattr(each, "hidden", False)]
    names = [name for each in listed for name in (*each.opts, *each.secondary_opts)]
    meant = next((name for name in SYNONYMS.get(option, ()) if name in names), None)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return nearest_hint(option, ["--help", *(name for name in names if name.startswith("--"))])


def commands_of(context: typer.Context) -> Collection[str]:
    """Return the verbs of a command; a verb has none."""
    return getattr(context.command, "commands", ())
