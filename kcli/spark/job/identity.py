"""Identity: whose records a target holds and in which form; `export.json`, written once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.job.options import FieldFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.job.options import WriteOptions

FORMAT = 1


class TargetMismatch(KcliError):
    """The target holds something else than what is to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What every export to a target must have in common."""

    cluster_id: str | None
    topics: dict[str, str | None]
    """Topic ids by name; commits know of topics that came later."""
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
        """Return the identity of an export with these options."""
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
        """Return the fields as JSON has them."""
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
        """Raise `TargetMismatch` if both clusters are known and are not one."""
        if self.cluster_id and cluster_id and self.cluster_id != cluster_id:
            raise _mismatch(target, "cluster", self.cluster_id, cluster_id)

    def check(self, present: Identity, target: str) -> None:
        """Raise `TargetMismatch` unless an export of identity `present` may go on in this target."""
        self.check_cluster(present.cluster_id, target)
        if self.topics and not self.topics.keys() & present.topics.keys():
            raise _mismatch(target, "topic", ", ".join(self.topics), ", ".join(present.topics))
        for name, mine, other in self._forms(present):
            if mine != other:
                raise _mismatch(target, name, mine, other)

    def _forms(self, present: Identity) -> list[tuple[str, str, str]]:
        """Return what the form of files depends on, by name, as stored and as asked for now."""
        stored, asked = self._form(), present._form()
        return [(name, stored[name], asked[name]) for name in stored]

    def _form(self) -> dict[str, str]:
        return {
            "list of columns": ",".join(self.columns),
            "layout": ",".join(self.partition_by) or "flat",
            "key format": self.key.name,
            "value format": self.value.name,
            "key schema": self.key.schema or "none",
            "value schema": self.value.schema or "none",
            "form of headers": "map" if self.headers_as_map else "array",
            "select": self.select or "none",
        }


def _mismatch(target: str, name: str, mine: str, other: str) -> TargetMismatch:
    return TargetMismatch(
        f"`{target}` was exported with another {name}: {_shortened(mine)} (now: {_shortened(other)})",
        hint="export to another directory, or replace what is there with `--mode overwrite`",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
