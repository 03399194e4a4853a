"""What an export is asked to do, and the identity of a target.

`ExportOptions` is one run's; `WriteOptions`, which the tasks obey, are stored in every plan. `Identity` says
whose records a target holds and in which form: `export.json`, written once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.export.target.layout import Layout
from kcli.spark.source.ranges.offset_specs import RangeRules
from kcli.spark.source.ranges.trigger_limits import TriggerLimits
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import FieldFormat, OnBadValue, OnCorrupt, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.source.ranges.selection import Selection


class Mode(StrEnum):
    """What to do with what the target holds."""

    APPEND = "append"
    SNAPSHOT = "snapshot"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    compression: str = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a task must know besides its split; stored in the plan, so that a resumed plan writes alike."""

    reading: Reading = field(default_factory=Reading)
    key: FieldFormat = field(default_factory=FieldFormat)
    value: FieldFormat = field(default_factory=FieldFormat)
    on_bad_value: OnBadValue = OnBadValue.FAIL
    headers_as_map: bool = False
    where: str | None = None
    select: str | None = None
    """Columns computed by Spark SQL; for the Spark writer only."""
    layout: Layout = field(default_factory=Layout)
    parquet: ParquetOptions = field(default_factory=ParquetOptions)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> WriteOptions:
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
    selection: Selection
    rules: RangeRules = field(default_factory=lambda: RangeRules(read_committed=True))
    write: WriteOptions = field(default_factory=WriteOptions)
    mode: Mode = Mode.APPEND
    limits: SplitLimits = field(default_factory=SplitLimits)

    def fingerprint(self) -> str:
        """Return a digest of what a run is asked for; equal for a later run that is asked for the same."""
        words = f"{self.mode} {self.selection} {self.rules} {self.write}"
        return sha256(words.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How often a run that follows its topics exports, and how much."""

    interval_s: float = 30.0
    triggers: TriggerLimits = field(default_factory=TriggerLimits)


FORMAT = 1


class TargetMismatch(KcliError):
    """The target holds something other than what is to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What all exports to a target must have in common."""

    cluster_id: str | None
    topics: dict[str, str | None]
    """Topic ids by name; commits know of later topics."""
    columns: tuple[str, ...]
    key: FieldFormat
    value: FieldFormat
    headers_as_map: bool
    select: str | None
    partition_by: tuple[str, ...]

    @classmethod
    def of(
        cls, options: WriteOptions, *, cluster_id: str | None, topics: Mapping[str, str | None]
    ) -> Identity:
        return cls(
            cluster_id=cluster_id,
            topics=dict(topics),
            columns=options.reading.columns,
            key=options.key,
            value=options.value,
            headers_as_map=options.headers_as_map,
            select=options.select,
            partition_by=options.layout.partition_by,
        )

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Identity:
        """Return the identity that `to_json` wrote; raise `TargetMismatch` for a later format."""
        fields = dict(stored)
        if fields.pop("format") != FORMAT:
            raise TargetMismatch("the target was written by a later version of kcli")
        for name in ("columns", "partition_by"):
            fields[name] = tuple(fields[name])
        for name in ("key", "value"):
            fields[name] = FieldFormat(**fields[name])
        return cls(**fields)

    def check_cluster(self, cluster_id: str | None, target: str) -> None:
        """Raise `TargetMismatch` if both clusters are known and differ."""
        if self.cluster_id and cluster_id and self.cluster_id != cluster_id:
            raise _mismatch(target, "cluster", self.cluster_id, cluster_id)

    def check(self, present: Identity, target: str) -> None:
        """Raise `TargetMismatch` unless an export of identity `present` may continue this target."""
        self.check_cluster(present.cluster_id, target)
        if self.topics and not self.topics.keys() & present.topics.keys():
            raise _mismatch(target, "topic", ", ".join(self.topics), ", ".join(present.topics))
        asked = present._form()
        for name, mine in self._form().items():
            if mine != asked[name]:
                raise _mismatch(target, name, mine, asked[name])
        self._check_schemas(present, target)

    def with_schemas(self, present: Identity) -> Identity:
        """Return this identity with the schemas of `present`, an identity that `check` accepts."""
        return replace(self, key=present.key, value=present.value)

    def _check_schemas(self, present: Identity, target: str) -> None:
        """Raise `TargetMismatch` unless the schemas differ in new fields at most."""
        from kcli.spark.export.schema_change import schema_difference

        for side, mine, other in (("key", self.key, present.key), ("value", self.value, present.value)):
            difference = schema_difference(mine, other)
            if difference is not None:
                raise TargetMismatch(
                    f"`{target}` was exported with another {side} schema: {difference}",
                    hint="new fields may be added; export to another directory, or replace what is there "
                    "with `--mode overwrite`",
                )

    def _form(self) -> dict[str, str]:
        """Return what files depend on."""
        return {
            "list of columns": ",".join(self.columns),
            "layout": ",".join(self.partition_by) or "flat",
            "key format": self.key.name,
            "value format": self.value.name,
            "form of headers": "map" if self.headers_as_map else "array",
            "select": self.select or "none",
        }


def _mismatch(target: str, name: str, mine: str, other: str) -> TargetMismatch:
    mine, other = _shortened(mine, other)
    return TargetMismatch(
        f"`{target}` was exported with another {name}: {mine} (now: {other})",
        hint="export to another directory, or replace what is there with `--mode overwrite`",
    )


def _shortened(mine: str, other: str) -> tuple[str, str]:
    """Return two texts that differ, cut to what is around their first difference if they are long."""
    if max(len(mine), len(other)) <= 100:
        return mine, other
    pairs = enumerate(zip(mine, other, strict=False))
    differs = next((index for index, (one, two) in pairs if one != two), min(len(mine), len(other)))
    start = max(0, differs - 20)
    return _cut(mine, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + 60
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")
