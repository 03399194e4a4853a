"""What a command line says of where records come from, and what does not go together in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.commands.output import note
from kcli.commands.transfer.export_choices import FollowChoice
from kcli.commands.transfer.export_engines import LOCAL_MASTER
from kcli.commands.transfer.export_options import EngineName, Via, WriterName
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.transfer.export_choices import ExportChoices, SourceChoice
    from kcli.spark.source import Source

BOOTSTRAP_VARIABLE = "KCLI_BOOTSTRAP_SERVER"

NO_EFFECT = {
    "isolation.level": "use `--isolation-level`",
    "auto.offset.reset": "use `--starting-offsets`",
    "group.id": "no group is joined",
    "enable.auto.commit": "no offsets are committed to the cluster",
}
"""Client properties that mean nothing to an export; files that consumers share have them."""


def check_combination(choices: ExportChoices) -> None:
    """Refuse options that contradict each other."""
    engine, columns = choices.engine, choices.columns
    if choices.source.log_dirs and choices.source.bootstrap_server is not None:
        raise UsageError("`--bootstrap-server` and `--log-dir` exclude each other")
    if needs_spark_writer(choices) and engine.writer is WriterName.ARROW:
        raise UsageError("`--select`, `--via connector` and this `--where` need `--writer spark`")
    if uses_spark_writer(choices) and engine.engine is EngineName.LOCAL:
        raise UsageError(
            f"{_what_needs_spark(choices)} needs `--engine spark`", hint="leave `--engine local` out"
        )
    if engine.via is Via.CONNECTOR and choices.source.log_dirs:
        raise UsageError("`--via connector` reads from brokers, not from `--log-dir`")
    if engine.engine is EngineName.LOCAL:
        if engine.conf:
            raise UsageError("`--conf` has no meaning with `--engine local`")
        if engine.master is not None and LOCAL_MASTER.fullmatch(engine.master) is None:
            raise UsageError(f"`--engine local` cannot run on {engine.master}", hint="--master local[4]")
    if columns.select is not None and not columns.select.strip():
        raise UsageError("`--select` names no column")
    _check_follow(choices.follow)


def _what_needs_spark(choices: ExportChoices) -> str:
    """Return the option that only Spark SQL can do."""
    if choices.engine.writer is WriterName.SPARK:
        return "`--writer spark`"
    if choices.columns.select is not None:
        return "`--select`"
    return "`--via connector`" if choices.engine.via is Via.CONNECTOR else "this `--where`"


def _check_follow(choice: FollowChoice) -> None:
    """Refuse what says how to follow, and nothing is followed."""
    if choice.follow:
        return
    usual = FollowChoice()
    for option, given, default in (
        ("--interval", choice.interval, usual.interval),
        ("--min-offsets-per-trigger", choice.min_offsets, None),
        ("--max-trigger-delay", choice.max_delay, usual.max_delay),
        ("--max-offsets-per-trigger", choice.max_offsets, None),
    ):
        if given != default:
            raise UsageError(f"`{option}` has no meaning without `--follow`")


def needs_spark_writer(choices: ExportChoices) -> bool:
    """Tell whether only Spark SQL can do what is asked for."""
    from kcli.spark.ranges.conjuncts import is_evaluable, parse_where

    where = choices.columns.where
    has_opaque = where is not None and not is_evaluable(parse_where(where))
    return has_opaque or choices.columns.select is not None or choices.engine.via is Via.CONNECTOR


def uses_spark_writer(choices: ExportChoices) -> bool:
    """Tell whether Spark SQL writes the files."""
    return choices.engine.writer is WriterName.SPARK or needs_spark_writer(choices)


def open_source(choice: SourceChoice) -> Source:
    """Return where records come from; nothing is read yet."""
    if choice.log_dirs:
        from kcli.spark.logs.log_dirs_source import LogDirsSource

        return LogDirsSource([str(path) for path in choice.log_dirs], warn)
    from kcli.commands.session import addresses
    from kcli.spark.cluster.brokers_source import BrokersSource

    properties = source_properties(choice)
    given = choice.bootstrap_server
    if given is None:
        given = os.environ.get(BOOTSTRAP_VARIABLE) or None
    return BrokersSource(addresses(given, properties), properties)


def source_properties(choice: SourceChoice) -> dict[str, str]:
    """Return the client's properties; what has no effect is said, and left out."""
    from kcli.client.config import property_warnings
    from kcli.commands.session import client_properties

    properties = client_properties(
        choice.command_config, choice.command_property, {"client.id": "kcli-spark-export"}
    )
    for line in property_warnings(properties):
        warn(line)
    for name, instead in NO_EFFECT.items():
        if properties.pop(name, None) is not None:
            warn(f"`{name}` has no effect: {instead}")
    return properties


def warn(text: str) -> None:
    """Tell the user of something that is not as they may think."""
    note(f"warning: {text}")
