"""ImportState: what an import into a topic remembers; its file; and what is left to send.

JSON, replaced as a whole before the first record of a partition is sent:

    {"format": 1, "source": "orders", "target": "orders-2", "cluster": "…", "topic_id": "…",
     "base": {"0": 17}}          where each partition of the target ended before the import

A lock beside the file keeps out a second import with the same state.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError, UsageError
from kcli.storage.checkpoints import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ImportState:
    """What an import remembers; a cluster without ids has None."""

    source: str
    target: str
    cluster: str | None
    topic_id: str | None
    base: dict[int, int] = field(default_factory=dict)

    def is_of(self, other: ImportState) -> bool:
        """Return whether the states differ in base offsets at most."""
        return replace(self, base={}) == replace(other, base={})

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ImportState:
        """Return the state in a file's text; raise `ValueError`."""
        fields: dict[str, Any] = json.loads(text)
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise ValueError(f"format {FORMAT} is known")
        try:
            base = {int(partition): int(offset) for partition, offset in fields.pop("base").items()}
            return cls(**fields, base=base)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of an import: {error}") from error


class StateFile:
    """The file of a state; its lock is held while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> ImportState | None:
        try:
            return ImportState.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KcliError(f"cannot read `{self.path}`: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"`{self.path}` is damaged: {error}") from error

    def save(self, state: ImportState) -> None:
        """Replace the state; it survives a power failure."""
        try:
            write_atomically(str(self.path), state.to_json().encode())
        except OSError as error:
            raise self._unwritable(error) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep out other imports with this state; raise `KcliError` if there is one."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
                raise KcliError(f"another import into the topic is running: {owner}") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _unwritable(self, error: OSError) -> KcliError:
        return KcliError(
            f"cannot write `{self.path}`: {error.strerror}",
            hint="`--state FILE` keeps the state of the import elsewhere",
        )


RESTART_HINT = "`--restart` imports everything again, behind what is there"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition: where the target ended before the import, its rows, and how many have arrived."""

    partition: int
    base: int
    rows: int
    done: int = 0

    @property
    def todo(self) -> int:
        return self.rows - self.done


def plan_import(
    rows: Mapping[int, int], ends: Mapping[int, int], before: ImportState | None, target: str
) -> dict[int, PartitionPlan]:
    """Return the plan of each partition that has rows.

    `ends` is where the target's partitions end now. What was appended since `before` was written was sent by
    this import. A target that lost records, or has more of them than there are rows, is refused.
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
                f"has {count}: another producer writes to it",
                hint=RESTART_HINT,
            )
        plans[partition] = PartitionPlan(partition, start, count, done)
    return plans
