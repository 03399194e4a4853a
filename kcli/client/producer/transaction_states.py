"""The states of a transactional producer: what each call does in each of them, and what an error leads to.

| state          | begin            | send        | commit      | abort       | a batch or offsets fail |
|----------------|------------------|-------------|-------------|-------------|-------------------------|
| uninitialized  | usage error      | usage error | usage error | usage error | -                       |
| ready          | in transaction   | usage error | usage error | usage error | stays                   |
| in transaction | usage error      | queues      | committing  | aborting    | abortable               |
| committing     | waits            | waits       | joins       | joins       | abortable               |
| aborting       | waits            | waits       | joins       | joins       | stays                   |
| abortable      | raises the cause | raises it   | raises it   | aborting    | stays                   |
| fatal          | raises the cause | raises it   | raises it   | raises it   | stays                   |

The values `CALLS` and `EVENTS` are this table (Kafka class `TransactionManager`, its `State`). `CALLS` gives
the state that follows, or why there is none; `EVENTS` the state that follows, which may be the same.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionState(Enum):
    """What a transactional producer is doing; the value says it in words."""

    UNINITIALIZED = "not initialized"
    READY = "without a transaction"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing a transaction"
    ABORTING = "aborting a transaction"
    ABORTABLE = "in a transaction that can only be aborted"
    FATAL = "of no more use"


class Call(Enum):
    """What a caller asks for; the value is the name of the producer's method."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


class Event(Enum):
    """What happens to a producer by itself."""

    INITIALIZED = "the coordinator gave a producer id and epoch"
    ENDED = "the coordinator has decided the transaction"
    WITHDRAWN = "a commit was cancelled before it was sent"
    ABORTABLE_ERROR = "something of the transaction failed"
    FATAL_ERROR = "the producer may not go on"


class Refusal(Enum):
    """Why a call does not change the state at once."""

    MISUSE = "the call is wrong in this state"
    WAITS = "it waits for the end of the transaction"
    JOINS = "it waits for the end of the transaction, and that is its result"
    RAISES = "it raises the error that led to the state"


_UNINITIALIZED, _READY = TransactionState.UNINITIALIZED, TransactionState.READY
_IN_TRANSACTION = TransactionState.IN_TRANSACTION
_COMMITTING, _ABORTING = TransactionState.COMMITTING, TransactionState.ABORTING
_ABORTABLE, _FATAL = TransactionState.ABORTABLE, TransactionState.FATAL
_MISUSE, _WAITS, _JOINS, _RAISES = Refusal

_CALLS: dict[TransactionState, tuple[TransactionState | Refusal, ...]] = {
    # state: what INIT, BEGIN, SEND, COMMIT and ABORT lead to
    _UNINITIALIZED: (_UNINITIALIZED, _MISUSE, _MISUSE, _MISUSE, _MISUSE),
    _READY: (_MISUSE, _IN_TRANSACTION, _MISUSE, _MISUSE, _MISUSE),
    _IN_TRANSACTION: (_MISUSE, _MISUSE, _IN_TRANSACTION, _COMMITTING, _ABORTING),
    _COMMITTING: (_MISUSE, _WAITS, _WAITS, _JOINS, _JOINS),
    _ABORTING: (_MISUSE, _WAITS, _WAITS, _JOINS, _JOINS),
    _ABORTABLE: (_MISUSE, _RAISES, _RAISES, _RAISES, _ABORTING),
    _FATAL: (_RAISES, _RAISES, _RAISES, _RAISES, _RAISES),
}

CALLS: Mapping[tuple[TransactionState, Call], TransactionState | Refusal] = MappingProxyType(
    {(state, call): row[index] for state, row in _CALLS.items() for index, call in enumerate(Call)}
)

EVENTS: Mapping[tuple[TransactionState, Event], TransactionState] = MappingProxyType(
    {
        (_UNINITIALIZED, Event.INITIALIZED): _READY,
        (_COMMITTING, Event.ENDED): _READY,
        (_ABORTING, Event.ENDED): _READY,
        (_COMMITTING, Event.WITHDRAWN): _IN_TRANSACTION,
        (_IN_TRANSACTION, Event.ABORTABLE_ERROR): _ABORTABLE,
        (_COMMITTING, Event.ABORTABLE_ERROR): _ABORTABLE,
        # What fails while a transaction is aborted, or between two, changes nothing.
        (_ABORTING, Event.ABORTABLE_ERROR): _ABORTING,
        (_ABORTABLE, Event.ABORTABLE_ERROR): _ABORTABLE,
        (_READY, Event.ABORTABLE_ERROR): _READY,
        (_FATAL, Event.ABORTABLE_ERROR): _FATAL,
        **{(state, Event.FATAL_ERROR): _FATAL for state in TransactionState},
    }
)
"""The events that a state knows: any other pair is a mistake of the program."""


class Reaction(Enum):
    """What a coordinator's error code leads to."""

    AGAIN = "the request is sent again after a pause"
    LOOK_UP = "it is sent again, to the coordinator that is found then"
    ABORTABLE = "the transaction can only be aborted"
    FATAL = "the producer may not go on"
    FENCED = "the same: another producer has the transactional id"


_REACTIONS: Mapping[ErrorCode, Reaction] = MappingProxyType(
    {
        ErrorCode.REQUEST_TIMED_OUT: Reaction.LOOK_UP,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.LOOK_UP,
        ErrorCode.NOT_COORDINATOR: Reaction.LOOK_UP,
        ErrorCode.CONCURRENT_TRANSACTIONS: Reaction.AGAIN,
        ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.FENCED,
        ErrorCode.PRODUCER_FENCED: Reaction.FENCED,
        ErrorCode.INVALID_TXN_STATE: Reaction.FATAL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.FATAL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.FATAL,
        ErrorCode.UNSUPPORTED_VERSION: Reaction.FATAL,
        ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORTABLE,
        ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.ABORTABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.ABORTABLE,
        ErrorCode.ILLEGAL_GENERATION: Reaction.ABORTABLE,
        ErrorCode.FENCED_INSTANCE_ID: Reaction.ABORTABLE,
    }
)


ENDED_HINT = (
    "one producer at a time may use the id; or the broker ended the transaction: it was open for longer than "
    "`--transaction-timeout-ms` (transaction.timeout.ms), or by `kcli transactions force-terminate`"
)
"""Why a producer is of no more use: brokers tell every reason with the same error codes."""


def ended_hint(code: ErrorCode) -> str | None:
    """Return the hint for an error that may mean that the transaction was ended by someone else."""
    ended = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
    return ENDED_HINT if code in ended else None


def markers_hint(transactional_id: str) -> str:
    """Return the hint for CONCURRENT_TRANSACTIONS that lasts: a transaction that does not get ended."""
    return (
        f"`kcli transactions describe {transactional_id}` shows what is still open: while it is prepared, "
        "markers are not written yet, because a partition has no leader or a fault holds them"
    )


def reaction(code: ErrorCode, *, of_items: bool) -> Reaction:
    """Return what an error of a coordinator leads to.

    `of_items`: the request was about partitions or offsets, which the transaction can be aborted without; an
    error that nobody expects is fatal otherwise.
    """
    known = _REACTIONS.get(code)
    if known is not None:
        return known
    if code.retriable:
        return Reaction.AGAIN
    return Reaction.ABORTABLE if of_items else Reaction.FATAL


FATAL_OF_BATCHES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)  # fmt: skip
"""Errors of a batch after which the producer may not go on; any other one leaves the abort."""
