"""The names of what stands under `_kcli/`."""

from __future__ import annotations

import re
from typing import Final

STATE: Final = "_kcli"
IDENTITY: Final = f"{STATE}/export.json"
LOCK: Final = f"{STATE}/lock"
LOG: Final = f"{STATE}/log"
SET_ASIDE: Final = f"{STATE}/set-aside"
DEAD_BATCHES: Final = f"{STATE}/dead-letter/batches"
DEAD_VALUES: Final = f"{STATE}/dead-letter/values"

_NUMBERED = re.compile(r"(\d{10})\.(plan|commit)\.json")
_RECEIPT = re.compile(r"split-(\d{5,})(?:\.[0-9a-f]+)?\.json")


def plan_path(number: int) -> str:
    """Return the file of a plan."""
    return f"{LOG}/{number:010d}.plan.json"


def commit_path(number: int) -> str:
    """Return the file of a commit."""
    return f"{LOG}/{number:010d}.commit.json"


def receipts_path(number: int) -> str:
    """Return the directory of a plan's receipts."""
    return f"{LOG}/{number:010d}"


def receipt_path(number: int, index: int, attempt: str | None) -> str:
    """Return the file of a receipt; it names the attempt where creation is not exclusive."""
    suffix = "" if attempt is None else f".{attempt}"
    return f"{receipts_path(number)}/split-{index:05d}{suffix}.json"


def number_in(name: str) -> tuple[int, str] | None:
    """Return the number and kind, `plan` or `commit`, of a file name in the log."""
    match = _NUMBERED.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def receipt_index(name: str) -> int | None:
    """Return the split of a receipt's file name."""
    match = _RECEIPT.fullmatch(name)
    return int(match[1]) if match else None
