"""The kinds of failures that end a run, and whether its plan can still be finished."""

from __future__ import annotations

import errno
import pickle
from enum import StrEnum

from kcli.client.network.bootstrap import Unreachable
from kcli.client.network.connection import Disconnected
from kcli.errors import Interrupted, KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.decode.formats.formats import BadValue
from kcli.spark.export.options import TargetMismatch
from kcli.spark.source.data_loss import DataLoss, TopicReset


class FailureKind(StrEnum):
    """The kinds of failures in the JSON result."""

    DATA_LOSS = "data-loss"
    TOPIC_RESET = "topic-reset"
    CORRUPTION = "corruption"
    BAD_VALUE = "bad-value"
    LOCKED = "target-locked"
    TARGET = "target"
    UNREACHABLE = "unreachable"
    ENVIRONMENT = "environment"
    USAGE = "usage"
    INTERRUPTED = "interrupted"
    OTHER = "other"


class TargetLocked(KcliError):
    """Another export holds the lock of the target."""


class TargetRefused(KcliError):
    """The target does not allow this export."""


class TargetTrouble(KcliError):
    """The target cannot be written or read."""

    @classmethod
    def of(cls, error: OSError, uri: str) -> TargetTrouble:
        """Return an error of the file system or the store as one for users."""
        reason = error.strerror or str(error).partition("\n")[0]
        where = f"{error.filename}" if error.filename else uri
        return cls(f"cannot write to `{where}`: {reason}")


class WorkerLost(KcliError):
    """The process of a task died, on every attempt."""


class TaskFailed(KcliError):
    """A task's error that could not be pickled: its message and its kind."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        kind: FailureKind = FailureKind.OTHER,
        passing: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.passing = passing


_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (DataLoss, FailureKind.DATA_LOSS),
    (TopicReset, FailureKind.TOPIC_RESET),
    (CorruptBatch, FailureKind.CORRUPTION),
    (BadValue, FailureKind.BAD_VALUE),
    (TargetLocked, FailureKind.LOCKED),
    (TargetRefused, FailureKind.TARGET),
    (TargetMismatch, FailureKind.TARGET),
    (Unreachable, FailureKind.UNREACHABLE),
    (Disconnected, FailureKind.UNREACHABLE),
    (WorkerLost, FailureKind.ENVIRONMENT),
    (TargetTrouble, FailureKind.ENVIRONMENT),
    (UsageError, FailureKind.USAGE),
    (Interrupted, FailureKind.INTERRUPTED),
    (KeyboardInterrupt, FailureKind.INTERRUPTED),
    (OSError, FailureKind.ENVIRONMENT),
)

_PASSING_ERRNOS = (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT, errno.EIO)


def kind_of(error: BaseException) -> FailureKind:
    if isinstance(error, TaskFailed):
        return error.kind
    if isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return FailureKind.DATA_LOSS
    if is_passing(error):
        return FailureKind.UNREACHABLE
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), FailureKind.OTHER)


def is_passing(error: BaseException) -> bool:
    """Return whether a retry may succeed: brokers or the network are unavailable."""
    match error:
        case TaskFailed():
            return error.passing
        case KafkaError():
            return error.code.retriable and error.code is not ErrorCode.CORRUPT_MESSAGE
        case OSError():
            return isinstance(error, ConnectionError) or error.errno in _PASSING_ERRNOS
    return isinstance(error, (Unreachable, Disconnected))


def is_final(error: BaseException) -> bool:
    """Return whether the plan can never be finished as it is: its data does not change."""
    return kind_of(error) in (FailureKind.CORRUPTION, FailureKind.BAD_VALUE, FailureKind.USAGE)


def portable(error: Exception) -> Exception:
    """Return an error that can be pickled, with the same message and kind."""
    try:
        arrived = pickle.loads(pickle.dumps(error))
    except Exception:  # Unpickling runs the class of the error, which may need more than a message.
        arrived = None
    if type(arrived) is type(error) and str(arrived) == str(error):
        return error
    message = error.message if isinstance(error, KcliError) else f"{type(error).__name__}: {error}"
    hint = error.hint if isinstance(error, KcliError) else None
    return TaskFailed(message, hint=hint, kind=kind_of(error), passing=is_passing(error))
