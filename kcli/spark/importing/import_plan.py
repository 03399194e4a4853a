"""What an import still has to send, partition by partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.spark.importing.import_state import ImportState

RESTART_HINT = "`--restart` imports everything again, behind what is there"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition: where the target ended before the import, its rows, and those that are there already."""

    partition: int
    base: int
    rows: int
    done: int = 0

    @property
    def todo(self) -> int:
        """Return how many rows are to be sent."""
        return self.rows - self.done


def plan_import(
    rows: Mapping[int, int], ends: Mapping[int, int], before: ImportState | None, target: str
) -> dict[int, PartitionPlan]:
    """Return the plan of each partition that has rows.

    `ends` is where the target's partitions end now. What stands in them since `before` was written was sent
    by this import: a target that lost records, or has more of them than there are rows, is refused.
    """
    base = before.base if before is not None else {}
    plans = {}
    for partition, count in sorted(rows.items()):
        start = base.get(partition, ends[partition])
        done = ends[partition] - start
        if done < 0:
            raise KcliError(
                f"partition {partition} of `{target}` ends at {ends[partition]}, it ended at {start} before "
                "the import: it was truncated or made anew",
                hint=RESTART_HINT,
            )
        if done > count:
            raise KcliError(
                f"partition {partition} of `{target}` has {done} records since the import began, the export "
                f"has {count}: somebody else writes to it",
                hint=RESTART_HINT,
            )
        plans[partition] = PartitionPlan(partition, start, count, done)
    return plans
