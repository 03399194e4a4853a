"""Damaged batches, kept as they were found: `<topic>-<partition>-<position>.bin` and a JSON file beside it.

Names tell where it was found, so that another attempt at the same split writes the same file. Positions
begin anew in every segment: what differs from a file of that name gets its checksum into the name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from zlib import crc32

from kcli.spark.job.state_paths import DEAD_BATCHES

if TYPE_CHECKING:
    from kcli.spark.job.target import Target
    from kcli.spark.split import Split


class DeadBatches:
    """Keeps the damaged batches of one split."""

    def __init__(self, target: Target, split: Split, plan: int) -> None:
        self._target = target
        self._split = split
        self._plan = plan
        self.count = 0

    def keep(self, topic: str, partition: int, position: int, raw: bytes, reason: str) -> None:
        """Write a batch and what is known of it; `ReadCounters.on_damaged_batch` calls this."""
        stem = f"{DEAD_BATCHES}/{topic}-{partition}-{position}"
        if not self._write(f"{stem}.bin", raw):
            stem = f"{stem}-{crc32(raw):08x}"
            self._write(f"{stem}.bin", raw)
        facts = {
            "topic": topic,
            "partition": partition,
            "position": position,
            "size_bytes": len(raw),
            "reason": reason,
            "directory": self._split.directory,
            "split": [self._split.start, self._split.end],
            "plan": self._plan,
        }
        self._target.write_atomically(f"{stem}.json", json.dumps(facts, indent=1).encode() + b"\n")
        self.count += 1

    def _write(self, path: str, raw: bytes) -> bool:
        """Write a file, and return whether it now holds `raw`."""
        return self._target.create_exclusively(path, raw) or self._target.read(path) == raw
