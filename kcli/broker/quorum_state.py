"""The file `quorum-state` beside the metadata log: JSON that tells who leads in which epoch, as Kafka's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kcli.storage.checkpoints import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

QUORUM_STATE = "quorum-state"


def read_quorum_epoch(directory: str) -> int:
    """Return the epoch that the quorum state tells, 0 if it tells none."""
    try:
        with open(f"{directory}/{QUORUM_STATE}", encoding="utf-8") as file:
            return int(json.load(file)["leaderEpoch"])
    except (OSError, ValueError, KeyError, TypeError):
        # The log's own batches tell their epochs as well; this file only bridges a term without any.
        return 0


def write_quorum_state(
    directory: str, *, leader: int, epoch: int, voters: Sequence[int], sync: bool = True
) -> None:
    """Write who leads in an epoch, among which nodes. Raises `OSError`."""
    state: dict[str, Any] = {
        "clusterId": "",
        "leaderId": leader,
        "leaderEpoch": epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }
    data = json.dumps(state, separators=(",", ":")).encode()
    write_atomically(f"{directory}/{QUORUM_STATE}", data, sync=sync)
