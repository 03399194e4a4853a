"""Preparation: checks the options against source and target before the target is touched.

Schemas of a registry are pinned, so that all tasks and all later exports to the target decode alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.decode.formats.formats import pinned
from kcli.spark.decode.formats.schema_registry import REGISTRY
from kcli.spark.export.log.export_log import ExportLog
from kcli.spark.export.writing.row_shaper import RowShaper
from kcli.spark.filters.where import is_evaluable, parse_where
from kcli.spark.source.ranges.selection import SubscribePattern, select
from kcli.spark.split import Split

if TYPE_CHECKING:
    from kcli.spark.export.options import ExportOptions, WriteOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source
    from kcli.spark.split import FieldFormat


def checked_options(
    source: Source, target: Target, options: ExportOptions, *, may_be_nothing: bool = False
) -> ExportOptions:
    """Return the options with pinned schemas; raise `KcliError` if the export could not work.

    `may_be_nothing` allows a pattern that matches no topic yet.
    """
    is_pattern = isinstance(options.selection, SubscribePattern)
    registries = [one for one in (options.write.key, options.write.value) if _asks_registry(one)]
    topics: tuple[str, ...] = ()
    if is_pattern or registries:
        topics = tuple(topic.name for topic in select(options.selection, source.topics()).topics)
    if is_pattern and not topics and not may_be_nothing:
        raise KcliError("no topic fits the pattern", hint="`kcli topics list` shows the topics there are")
    write = options.write
    if registries and topics:
        identity = ExportLog.load(target).identity
        write = replace(
            write,
            key=_with_schema(write.key, identity.key if identity else None, topics, "key"),
            value=_with_schema(write.value, identity.value if identity else None, topics, "value"),
        )
    if not registries or topics:
        _check(write)
    return replace(options, write=write)


def _asks_registry(given: FieldFormat) -> bool:
    return given.schema is not None and given.schema.startswith(REGISTRY) and " " not in given.schema


def _with_schema(
    given: FieldFormat, before: FieldFormat | None, topics: tuple[str, ...], side: str
) -> FieldFormat:
    """Return a format with its schema: that of earlier exports to the target, or the latest."""
    if before is not None and before.name == given.name and _asks_registry(given):
        address, _, schema = (before.schema or "").partition(" ")
        if schema and address == given.schema:
            return before
    return pinned(given, topics, side)


def _check(write: WriteOptions) -> None:
    """Raise `UsageError` for unusable formats, and for filters that do not fit the columns."""
    if write.where is None or is_evaluable(parse_where(write.where)):
        RowShaper(write, Split("", 0, 0, 0))
