"""Layout: in which directories of the target rows lie, and what their files are called.

    topic=orders/partition=3/date=2026-05-01/hour=07/
        part-00000000000000001000-00000000000000002000-000007.parquet     start, end, plan
        part-00000000000000001000-00000000000000002000-000007-1.parquet   the same split's second file there

Dates and hours are those of the record's timestamp in UTC. What does not stand in the path stands at the
beginning of the name, so that names are unique in their directory: `part-orders-3-…` when flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.spark.split import Split

PARTITION_COLUMNS: Final = ("topic", "partition", "date", "hour")
DEFAULT_PARTITION_BY: Final = ("topic", "partition")

_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


def escape_path_name(text: str) -> str:
    """Percent-encode what Hive encodes in the name of a partition's directory (Hive class `FileUtils`)."""
    return "".join(f"%{ord(one):02X}" if one in _HIVE_ESCAPED else one for one in text)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns make directories, in the order topic, partition, date, hour; none is flat."""

    partition_by: tuple[str, ...] = DEFAULT_PARTITION_BY

    def __post_init__(self) -> None:
        """Refuse what is no layout."""
        for column in self.partition_by:
            if column not in PARTITION_COLUMNS:
                raise UsageError(
                    f"cannot partition by `{column}`", hint=f"choose of {', '.join(PARTITION_COLUMNS)}"
                )
        if list(self.partition_by) != sorted(set(self.partition_by), key=PARTITION_COLUMNS.index):
            raise UsageError(
                f"cannot partition by `{','.join(self.partition_by)}`",
                hint=f"name each once, in the order {', '.join(PARTITION_COLUMNS)}",
            )
        if self.by_hour and "date" not in self.partition_by:
            raise UsageError("cannot partition by `hour` without `date`")

    @property
    def by_hour(self) -> bool:
        """Return whether every hour has its directory."""
        return "hour" in self.partition_by

    @property
    def by_date(self) -> bool:
        """Return whether directories depend on the records' timestamps."""
        return "date" in self.partition_by

    @property
    def path_columns(self) -> tuple[str, ...]:
        """Return the columns that stand in the path and are left out of the files."""
        return tuple(column for column in self.partition_by if column in DEFAULT_PARTITION_BY)

    def directory(self, split: Split, period: tuple[str, ...] = ()) -> str:
        """Return the directory of a split's rows, of the date and hour given; "" when flat."""
        dated = dict(zip(("date", "hour"), period, strict=False))
        values = {"topic": split.topic, "partition": str(split.partition), **dated}
        return "/".join(
            f"{column}={escape_path_name(values[column])}" for column in self.partition_by if column in values
        )

    def stem(self, split: Split, plan: int) -> str:
        """Return how the names of a split's files begin."""
        values = {"topic": escape_path_name(split.topic), "partition": str(split.partition)}
        extra = [values[column] for column in DEFAULT_PARTITION_BY if column not in self.partition_by]
        return "-".join(["part", *extra, f"{split.start:020d}", f"{split.end:020d}", f"{plan:06d}"])
