"""Whether the producer snapshots of a replica are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.storage.log_paths import SNAPSHOT_SUFFIX
from kcli.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.storage.verification.segment_chain import ReplicaListing


def check_snapshots(listing: ReplicaListing, report: Callable[[Finding], None]) -> None:
    """Report the snapshots that are damaged, or hold what lies above them. Raises `OSError`."""
    for offset in listing.snapshots:
        path = listing.path(offset, SNAPSHOT_SUFFIX)
        try:
            with open(path, "rb") as file:
                data = file.read()
            producers = decode_snapshot(data)
        except CorruptSnapshot as error:
            report(Finding(path, FindingKind.SNAPSHOT_DAMAGED, error.message, 0, offset))
            continue
        except FileNotFoundError:
            continue
        seen = set()
        for producer in producers:
            if producer.producer_id in seen:
                message = f"producer {producer.producer_id} is there twice"
            elif max(producer.last_offset, producer.current_txn_first_offset) >= offset:
                message = (
                    f"producer {producer.producer_id} at offset {producer.last_offset}, transaction from "
                    f"{producer.current_txn_first_offset}: not below {offset}"
                )
            else:
                seen.add(producer.producer_id)
                continue
            report(Finding(path, FindingKind.SNAPSHOT_MISMATCH, message, None, producer.last_offset))
