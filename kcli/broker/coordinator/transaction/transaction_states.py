"""The states of a transactional id, and the tables that say how it passes from one to another.

| state | a producer may | next |
|---|---|---|
| EMPTY | begin a transaction | ONGOING, PREPARE_ABORT (without partitions), forgotten |
| ONGOING | add partitions, write, end the transaction | PREPARE_COMMIT, PREPARE_ABORT |
| PREPARE_COMMIT, PREPARE_ABORT | wait: the outcome is decided, partitions get their markers | COMPLETE_... |
| COMPLETE_COMMIT, COMPLETE_ABORT | as in EMPTY | as from EMPTY |

TV1 and TV2 are the two protocols of clients: with the second (KIP-890) every transaction ends with a new
producer epoch, so that a repeated EndTxn can be told from a new one. Kafka's states Dead and
PrepareEpochFence exist only as names: no record has them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionState(IntEnum):
    """The state of a transactional id; the value is that of records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """The name in responses: `PrepareCommit`."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """True while markers are written."""
        return self in _PREPARED

    @property
    def is_idle(self) -> bool:
        """True without a transaction."""
        return self in IDLE


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
_PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
_LABELS = {state: state.name.title().replace("_", "") for state in TransactionState}

STATES_BY_LABEL: Mapping[str, TransactionState | None] = {
    **{label: state for state, label in _LABELS.items()},
    "Dead": None,
    "PrepareEpochFence": None,
}
"""What a filter by state may name; no id is ever in a state that is None."""

PREDECESSORS: Mapping[TransactionState | None, frozenset[TransactionState]] = {
    EMPTY: IDLE,
    ONGOING: IDLE | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: IDLE | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    None: IDLE,
}
"""The states from which a record may lead to a state; None stands for the tombstone of a forgotten id.

From an idle state only a client of TV2 gets to PREPARE_ABORT: it aborts a transaction without partitions.
"""

EndResult = TransactionState | ErrorCode
"""The state to write, or the answer without a record; NONE if the transaction has ended so already."""

END_TV1: Mapping[tuple[TransactionState, bool], EndResult] = {
    # (state, whether it commits)
    (ONGOING, True): PREPARE_COMMIT,
    (ONGOING, False): PREPARE_ABORT,
    (PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (PREPARE_COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (PREPARE_ABORT, True): ErrorCode.INVALID_TXN_STATE,
    (PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
    (COMPLETE_COMMIT, True): ErrorCode.NONE,
    (COMPLETE_COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_ABORT, True): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_ABORT, False): ErrorCode.NONE,
    (EMPTY, True): ErrorCode.INVALID_TXN_STATE,
    (EMPTY, False): ErrorCode.INVALID_TXN_STATE,
}
"""EndTxn up to version 4, sent with the current epoch."""

END_TV2: Mapping[tuple[TransactionState, bool, bool], EndResult] = {
    # (state, whether it commits, whether it repeats the request that raised the epoch)
    (ONGOING, True, False): PREPARE_COMMIT,
    (ONGOING, False, False): PREPARE_ABORT,
    (ONGOING, True, True): ErrorCode.PRODUCER_FENCED,
    (ONGOING, False, True): ErrorCode.PRODUCER_FENCED,
    (PREPARE_COMMIT, True, False): ErrorCode.PRODUCER_FENCED,
    (PREPARE_COMMIT, False, False): ErrorCode.PRODUCER_FENCED,
    (PREPARE_COMMIT, True, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (PREPARE_COMMIT, False, True): ErrorCode.INVALID_TXN_STATE,
    (PREPARE_ABORT, True, False): ErrorCode.PRODUCER_FENCED,
    (PREPARE_ABORT, False, False): ErrorCode.PRODUCER_FENCED,
    (PREPARE_ABORT, True, True): ErrorCode.INVALID_TXN_STATE,
    (PREPARE_ABORT, False, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (COMPLETE_COMMIT, True, False): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_COMMIT, False, False): PREPARE_ABORT,
    (COMPLETE_COMMIT, True, True): ErrorCode.NONE,
    (COMPLETE_COMMIT, False, True): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_ABORT, True, False): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_ABORT, False, False): PREPARE_ABORT,
    (COMPLETE_ABORT, True, True): ErrorCode.INVALID_TXN_STATE,
    (COMPLETE_ABORT, False, True): ErrorCode.NONE,
    (EMPTY, True, False): ErrorCode.INVALID_TXN_STATE,
    (EMPTY, False, False): PREPARE_ABORT,
    (EMPTY, True, True): ErrorCode.PRODUCER_FENCED,
    (EMPTY, False, True): ErrorCode.PRODUCER_FENCED,
}
"""EndTxn from version 5 on, sent with the current epoch or with the one before."""
