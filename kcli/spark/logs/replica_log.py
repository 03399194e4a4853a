"""ReplicaLog: one replica's log as it is now: where it starts and ends, and what is in it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kcli.errors import KcliError
from kcli.spark.logs.divergence import divergence
from kcli.spark.logs.log_end import log_end_offset
from kcli.spark.logs.read_errors import CannotRead, reading
from kcli.spark.logs.segments import list_segments
from kcli.spark.logs.time_seek import offset_for_timestamp
from kcli.spark.logs.transactions import last_stable_offset
from kcli.spark.reading import OffsetInterval
from kcli.storage.log.leader_epochs import LeaderEpochs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.logs.replicas import Replica
    from kcli.spark.logs.segments import Segment
    from kcli.spark.reading import BatchMark

T = TypeVar("T")
_ATTEMPTS = 5


class ReplicaLog:
    """The log of a replica; what was found once is remembered. Raises `CannotRead`.

    `report` takes what a user should know.
    """

    def __init__(self, replica: Replica, report: Callable[[str], None]) -> None:
        self.replica = replica
        self.segments = list_segments(replica.path)
        self._report = report

    def ask(self, question: Callable[[Sequence[Segment]], T]) -> T:
        """Return the answer that the segments give; they are listed anew if a broker has deleted one."""
        for _ in range(_ATTEMPTS):
            try:
                with reading(self.replica.path):
                    return question(self.segments)
            except CannotRead as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                self.segments = list_segments(self.replica.path)
        raise KcliError(f"the files in `{self.replica.path}` go while they are read")

    @cached_property
    def start_offset(self) -> int:
        """The first offset there is."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.replica.log_start or 0)

    @cached_property
    def log_end_offset(self) -> int:
        """The offset behind the last whole batch, whether other replicas have it or not."""
        return max(self.ask(log_end_offset), self.start_offset)

    @cached_property
    def end_offset(self) -> int:
        """Up to where records may be read: the high watermark, if it was written down."""
        mark, end = self.replica.high_watermark, self.log_end_offset
        path = self.replica.path
        if mark is None:
            self._report(f"no high watermark of `{path}` is known: it is read to its end")
            return end
        if mark > end:
            self._report(f"`{path}` ends at offset {end}, below its high watermark {mark}")
        return max(min(mark, end), self.start_offset)

    @cached_property
    def last_stable_offset(self) -> int:
        """Up to where every transaction has ended."""
        start, end = self.start_offset, self.end_offset
        return max(self.ask(lambda segments: last_stable_offset(segments, start, end)), start)

    def divergence(self, marks: Sequence[BatchMark]) -> int | None:
        """Return from where on the log is another one than that of the marks, None if it is the same."""
        epochs = LeaderEpochs(self.replica.path)
        with reading(self.replica.path):
            epochs.load(self._report)
        start, end = self.start_offset, self.log_end_offset
        return self.ask(lambda segments: divergence(segments, epochs, marks, OffsetInterval(start, end)))

    def at_timestamp(self, timestamp_ms: int) -> int | None:
        """Return the earliest offset whose record is not older, None where there is none."""
        start, end = self.start_offset, self.end_offset
        return self.ask(lambda segments: offset_for_timestamp(segments, timestamp_ms, start, end))
