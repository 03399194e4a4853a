"""Data loss: offsets that were to be read and are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets `start` (included) to `end` (excluded) that cannot be read, and why.

    Both are 0 for a missing partition; its number is -1 if the whole topic is missing.
    """

    partition: TopicPartition
    start: int
    end: int
    reason: str


class DataLoss(KcliError):
    """Offsets to be read are gone, and the user does not accept that."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "read the rest with --no-fail-on-data-loss (option `failOnDataLoss` false)",
    ) -> None:
        super().__init__(message, hint=hint)


class TopicReset(KcliError):
    """A partition ends before what an earlier run read: it was created again or truncated."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="`--on-reset replace` begins again and removes the "
            "earlier rows, `--on-reset earliest` begins again and keeps them elsewhere",
        )


class LossReport:
    """Collects losses, or raises the first one as `DataLoss`."""

    def __init__(self, fails: bool) -> None:
        self.found: list[Loss] = []
        self._fails = fails

    def add(self, loss: Loss) -> None:
        if self._fails:
            raise DataLoss(f"cannot read all of {name_of(loss.partition)}: {loss.reason}")
        self.found.append(loss)

    def add_missing(self, partition: TopicPartition) -> None:
        """Add or raise a missing partition; number -1 is a whole topic."""
        if self._fails:
            kind = "topic" if partition.partition < 0 else "partition"
            raise DataLoss(
                f"no such {kind}: {name_of(partition)}", hint="`kcli topics list` shows the topics there are"
            )
        self.found.append(Loss(partition, 0, 0, "it does not exist"))

    def add_truncation(self, partition: TopicPartition, start: int, end: int) -> None:
        """Add or raise a truncation at `start`: the offsets up to `end` hold other records now."""
        reason = f"the log was truncated, offsets {start} to {end - 1} are others than those read before"
        if self._fails:
            raise DataLoss(
                f"{name_of(partition)} is not what it was: {reason}",
                hint="`--no-fail-on-data-loss` goes on behind them, `--on-reset replace` begins again",
            )
        self.found.append(Loss(partition, start, end, reason))

    def add_late_begin(self, partition: TopicPartition, begin: int) -> None:
        """Add or raise that a new partition does not begin at 0."""
        if begin > 0:
            self.add(Loss(partition, 0, begin, f"it is new, and begins at offset {begin} already"))


def name_of(partition: TopicPartition) -> str:
    """Return `topic-0`, or the topic alone for number -1."""
    return partition.topic if partition.partition < 0 else str(partition)
