"""ExportOptions: what an export was asked to do; the part that its tasks obey is stored in every plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kcli.spark.job.layout import Layout
from kcli.spark.ranges.offset_specs import RangeRules
from kcli.spark.ranges.streaming import TriggerLimits
from kcli.spark.reading import OnCorrupt, Reading
from kcli.spark.source import SplitLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.ranges.selection import Selection


class Mode(StrEnum):
    """What becomes of what the target already holds."""

    APPEND = "append"
    SNAPSHOT = "snapshot"
    OVERWRITE = "overwrite"


class OnBadValue(StrEnum):
    """What becomes of a key or value that its format does not fit."""

    FAIL = "fail"
    NULL = "null"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class FieldFormat:
    """How a key or value is decoded: binary, string, int, long, double, json, avro or none (left out)."""

    name: str = "binary"
    schema: str | None = None
    """The schema itself (DDL, JSON or Avro), or `registry:URL`."""


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How files are encoded."""

    compression: str = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a task must know besides its split; stored in the plan, so that a resumed plan goes on alike."""

    reading: Reading = field(default_factory=Reading)
    key: FieldFormat = field(default_factory=FieldFormat)
    value: FieldFormat = field(default_factory=FieldFormat)
    on_bad_value: OnBadValue = OnBadValue.FAIL
    headers_as_map: bool = False
    where: str | None = None
    select: str | None = None
    """Columns as Spark's SQL computes them; the Spark writer's only."""
    layout: Layout = field(default_factory=Layout)
    parquet: ParquetOptions = field(default_factory=ParquetOptions)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> WriteOptions:
        """Return the options that `to_json` wrote."""
        reading = dict(stored["reading"])
        reading["columns"] = tuple(reading["columns"])
        reading["on_corrupt"] = OnCorrupt(reading["on_corrupt"])
        known = {one.name for one in fields(cls)}
        return cls(
            **{name: value for name, value in stored.items() if name in known}
            | {
                "reading": Reading(**reading),
                "key": FieldFormat(**stored["key"]),
                "value": FieldFormat(**stored["value"]),
                "on_bad_value": OnBadValue(stored["on_bad_value"]),
                "layout": Layout(tuple(stored["layout"]["partition_by"])),
                "parquet": ParquetOptions(**stored["parquet"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What a run was asked to do."""

    selection: Selection
    rules: RangeRules = field(default_factory=lambda: RangeRules(read_committed=True))
    write: WriteOptions = field(default_factory=WriteOptions)
    mode: Mode = Mode.APPEND
    limits: SplitLimits = field(default_factory=SplitLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How a run that follows its topics paces itself."""

    interval_s: float = 30.0
    triggers: TriggerLimits = field(default_factory=TriggerLimits)
