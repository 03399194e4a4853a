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
    """What the JSON result of a failed run calls its failure."""

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
    """Another export writes to the target."""


class TargetRefused(KcliError):
    """The target is not one that can be exported to as asked."""


class TargetTrouble(KcliError):
    """The target cannot be written to, or read."""

    @classmethod
    def of(cls, error: OSError, uri: str) -> TargetTrouble:
        """Return an error of the file system or the store as users read it."""
        reason = error.strerror or str(error).partition("\n")[0]
        where = f"{error.filename}" if error.filename else uri
        return cls(f"cannot write to `{where}`: {reason}")


class WorkerLost(KcliError):
    """The process of a task ended, again and again."""


class TaskFailed(KcliError):
    """A task's error that could not travel as it was: its words, and what it meant."""

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
    """Return what a run's failure is called."""
    if isinstance(error, TaskFailed):
        return error.kind
    if isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return FailureKind.DATA_LOSS
    if is_passing(error):
        return FailureKind.UNREACHABLE
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), FailureKind.OTHER)


def is_passing(error: BaseException) -> bool:
    """Return whether the same may go well a little later: the brokers are away, or the network is."""
    match error:
        case TaskFailed():
            return error.passing
        case KafkaError():
            return error.code.retriable and error.code is not ErrorCode.CORRUPT_MESSAGE
        case OSError():
            return isinstance(error, ConnectionError) or error.errno in _PASSING_ERRNOS
    return isinstance(error, (Unreachable, Disconnected))


def is_final(error: BaseException) -> bool:
    """Return whether the plan cannot be finished as it was made: its data will not get better."""
    return kind_of(error) in (FailureKind.CORRUPTION, FailureKind.BAD_VALUE, FailureKind.USAGE)


def portable(error: Exception) -> Exception:
    """Return an error as one that another process can read, with its words and what kind it is of."""
    try:
        arrived = pickle.loads(pickle.dumps(error))
    except Exception:  # both run code of the error's class, which may want more than a message
        arrived = None
    if type(arrived) is type(error) and str(arrived) == str(error):
        return error
    message = error.message if isinstance(error, KcliError) else f"{type(error).__name__}: {error}"
    hint = error.hint if isinstance(error, KcliError) else None
    return TaskFailed(message, hint=hint, kind=kind_of(error), passing=is_passing(error))
