"""Layout: the directories of rows, the names of data files, and the names in the state directory.

    topic=orders/partition=3/date=2026-05-01/hour=07/
        part-00000000000000001000-00000000000000002000-000007.parquet     start, end, plan
        part-00000000000000001000-00000000000000002000-000007-1.parquet   the same split's second file there

Date and hour are the record's timestamp in UTC. Topic or partition are part of the file name if they are not
in the path, so that names are unique in a directory: `part-orders-3-…` when flat. Where partitions share
files, the first and the last of them are: `part-3to57-…`, with the smallest start and the largest end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.split import Split

PARTITION_COLUMNS: Final = ("topic", "partition", "date", "hour")
DEFAULT_PARTITION_BY: Final = ("topic", "partition")

_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


def escape_path_name(text: str) -> str:
    """Percent-encode what Hive encodes in the name of a partition's directory (Hive class `FileUtils`)."""
    return "".join(f"%{ord(one):02X}" if one in _HIVE_ESCAPED else one for one in text)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that make directories, in the order topic, partition, date, hour; flat without any."""

    partition_by: tuple[str, ...] = DEFAULT_PARTITION_BY

    def __post_init__(self) -> None:
        """Raise `UsageError` for an impossible layout."""
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
        return "hour" in self.partition_by

    @property
    def by_date(self) -> bool:
        """Return whether directories depend on the records' timestamps."""
        return "date" in self.partition_by

    @property
    def path_columns(self) -> tuple[str, ...]:
        """Return the columns that are in the path and not in the files."""
        return tuple(column for column in self.partition_by if column in DEFAULT_PARTITION_BY)

    def directory(self, split: Split, period: tuple[str, ...] = ()) -> str:
        """Return the directory of a split's rows for a date and hour; "" when flat."""
        dated = dict(zip(("date", "hour"), period, strict=False))
        values = {"topic": split.topic, "partition": str(split.partition), **dated}
        return "/".join(
            f"{column}={escape_path_name(values[column])}" for column in self.partition_by if column in values
        )

    def stem(self, splits: Sequence[Split], plan: int) -> str:
        """Return the beginning of the names of a task's files."""
        first = splits[0]
        values = {"topic": escape_path_name(first.topic), "partition": partitions_of(splits)}
        extra = [values[column] for column in DEFAULT_PARTITION_BY if column not in self.partition_by]
        start, end = min(one.start for one in splits), max(one.end for one in splits)
        return "-".join(["part", *extra, f"{start:020d}", f"{end:020d}", f"{plan:06d}"])


def partitions_of(splits: Sequence[Split]) -> str:
    """Return the number of the partition of splits, or the first and the last one: `3to57`."""
    numbers = [one.partition for one in splits]
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}to{high}"


_NAME = re.compile(
    r"(?P<hidden>\.?)(?P<stem>part-(?:.*-)?\d{20}-\d{20}-(?P<plan>\d{6,}))"
    r"(?P<suffix>(?:-[0-9a-f]{1,7})*)(?:-(?P<named>[0-9a-f]{8}))?\.(?:parquet|dead-letter)(?:\.(?P<attempt>[0-9a-f]+))?"
)


class FileName(NamedTuple):
    stem: str
    plan: int
    is_temporary: bool
    attempt: str | None
    """The id of the attempt that wrote it; None if it was renamed."""
    is_copy: bool
    """Whether it is of rows that an earlier plan read: see `copied_path`."""


def parsed_name(path: str) -> FileName | None:
    """Return the parts of a name, None if it is not a data file of an export."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    return FileName(
        match["stem"],
        int(match["plan"]),
        bool(match["hidden"]),
        match["attempt"] or match["named"],
        match["suffix"].startswith("-c"),
    )


def copied_path(path: str, plan: int) -> str:
    """Return the path of the copy of a data file that a later plan writes; it has both plans' numbers."""
    directory, slash, name = path.rpartition("/")
    found = parsed_name(name)
    assert found is not None
    rest = name[len(found.stem) :]
    stem = found.stem.removesuffix(f"{found.plan:06d}") + f"{plan:06d}"
    # The letter tells it from the number of a task's second file.
    return f"{directory}{slash}{stem}-c{found.plan:x}{rest}"


def published_path(path: str) -> str:
    """Return the final path of a file, given its temporary one."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}{name.removeprefix('.').rpartition('.')[0]}"


STATE: Final = "_kcli"
"""The first part of every path of state, wherever a target keeps it: see `state_name`."""
IDENTITY: Final = f"{STATE}/export.json"
LOCK: Final = f"{STATE}/lock"
LOG: Final = f"{STATE}/log"
SET_ASIDE: Final = f"{STATE}/set-aside"
OLD_LOGS: Final = f"{STATE}/old-logs"
DEAD_BATCHES: Final = f"{STATE}/dead-letter/batches"
DEAD_VALUES: Final = f"{STATE}/dead-letter/values"

DATA_SUFFIX: Final = ".parquet"
DEAD_SUFFIX: Final = ".dead-letter"
"""Of files of rows that could not be decoded: Parquet, too, but no pattern for data may match them."""


def state_name(name: str) -> str:
    """Return the name of the state directory beside a target with this name.

    It is beside and not inside: polars reads every file in a directory, and duckdb every `.parquet` below it.
    Readers of the directory above that skip `_` and `.` (Spark, pyarrow) skip it too.
    """
    return f"_{name}.kcli"


_NUMBERED = re.compile(r"(\d{10})\.(plan|commit)\.json")
_RECEIPT = re.compile(r"split-(\d{5,})(?:\.[0-9a-f]+)?\.json")


def plan_path(number: int) -> str:
    return f"{LOG}/{number:010d}.plan.json"


def commit_path(number: int) -> str:
    return f"{LOG}/{number:010d}.commit.json"


def receipts_path(number: int) -> str:
    return f"{LOG}/{number:010d}"


def receipt_path(number: int, index: int, attempt: str | None) -> str:
    """Return the path of a receipt; it contains the attempt where creation is not exclusive."""
    suffix = "" if attempt is None else f".{attempt}"
    return f"{receipts_path(number)}/split-{index:05d}{suffix}.json"


def number_in(name: str) -> tuple[int, str] | None:
    """Return the number and kind, `plan` or `commit`, of a file in the log."""
    match = _NUMBERED.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def receipt_index(name: str) -> int | None:
    """Return the number of the split in a receipt's file name."""
    match = _RECEIPT.fullmatch(name)
    return int(match[1]) if match else None
