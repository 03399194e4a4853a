"""TimingWheel: deadlines in a hierarchy of circular arrays (Kafka classes `TimingWheel`, `SystemTimer`).

Level 0 has buckets of one tick; each further level has buckets as wide as the whole level below. An entry is
in the finest level whose current turn reaches its deadline. When a bucket falls due, its entries are placed
again: they move to a finer level, or they are due.

Invariants:

* an entry is in at most one bucket, and `entry.bucket` is that bucket;
* a bucket that holds entries is in the due queue exactly once;
* an entry never comes out before its deadline, and comes out of the first `advance` at or after it.

To add an entry costs one step per level, to cancel it one dictionary deletion. The wheel reads no clock: its
driver sleeps until `next_due_ms` and then calls `advance`.
"""

from __future__ import annotations

from heapq import heappop, heappush

SLOTS = 20
"""The number of buckets of a level."""


class TimerEntry:
    """An entry with a deadline."""

    __slots__ = ("bucket", "deadline_ms")

    deadline_ms: int
    bucket: Bucket | None

    def __init__(self, deadline_ms: int = 0) -> None:
        self.deadline_ms = deadline_ms
        self.bucket = None


class Bucket(dict[TimerEntry, None]):
    """The entries of one slot, in insertion order; `due_ms` is -1 while the bucket is not queued."""

    __slots__ = ("due_ms",)

    def __init__(self) -> None:
        super().__init__()
        self.due_ms = -1


class Level:
    """One circular array: `len(buckets)` slots of `tick_ms` each, starting at `current_ms`."""

    __slots__ = ("buckets", "current_ms", "interval_ms", "tick_ms")

    def __init__(self, tick_ms: int, size: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * size
        self.current_ms = start_ms - start_ms % tick_ms
        self.buckets = [Bucket() for _ in range(size)]


class TimingWheel:
    """A set of `TimerEntry` ordered by deadline, in milliseconds of any monotonic clock."""

    __slots__ = ("_due", "count", "levels")

    def __init__(self, start_ms: int, *, tick_ms: int = 1) -> None:
        self.levels = [Level(tick_ms, SLOTS, start_ms)]
        self.count = 0
        self._due: list[tuple[int, int, int]] = []

    def add(self, entry: TimerEntry, now_ms: int) -> bool:
        """Add `entry`; return False, and add nothing, if its deadline has already come."""
        if entry.bucket is not None:
            raise ValueError("the entry is already in a wheel")
        if now_ms - self.levels[0].current_ms >= self.levels[0].interval_ms:
            self._catch_up(now_ms)
        if not self._place(entry):
            return False
        self.count += 1
        return True

    def cancel(self, entry: TimerEntry) -> None:
        """Remove `entry` if it is in the wheel."""
        bucket = entry.bucket
        if bucket is not None:
            del bucket[entry]
            entry.bucket = None
            self.count -= 1

    def next_due_ms(self) -> int | None:
        """Return the time at which `advance` next has something to do, None if the wheel is empty.

        This is the start of a bucket, so it may be earlier than every deadline in it.
        """
        due = self._due
        while due:
            due_ms, level, slot = due[0]
            bucket = self.levels[level].buckets[slot]
            if bucket:
                return due_ms
            heappop(due)  # All its entries were cancelled.
            bucket.due_ms = -1
        return None

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Move the clock to `now_ms` and return the entries that are due, earliest bucket first."""
        expired: list[TimerEntry] = []
        due = self._due
        while due and due[0][0] <= now_ms:
            due_ms, level, slot = heappop(due)
            bucket = self.levels[level].buckets[slot]
            bucket.due_ms = -1
            self._set_clock(due_ms)
            if bucket:
                entries = list(bucket)
                bucket.clear()
                for entry in entries:
                    entry.bucket = None
                    if not self._place(entry):
                        expired.append(entry)
        self._set_clock(now_ms)
        self.count -= len(expired)
        return expired

    def _catch_up(self, now_ms: int) -> None:
        """Move the clock of an idle wheel, so that new entries get the finest level possible."""
        next_due = self.next_due_ms()
        self._set_clock(now_ms if next_due is None else min(now_ms, next_due))

    def _set_clock(self, time_ms: int) -> None:
        for level in self.levels:
            if time_ms < level.current_ms + level.tick_ms:
                break
            level.current_ms = time_ms - time_ms % level.tick_ms

    def _place(self, entry: TimerEntry) -> bool:
        deadline_ms = entry.deadline_ms
        finest = self.levels[0]
        if deadline_ms < finest.current_ms + finest.tick_ms:
            return False
        index = 0
        while True:
            if index == len(self.levels):
                below = self.levels[-1]
                self.levels.append(Level(below.interval_ms, SLOTS, below.current_ms))
            level = self.levels[index]
            if deadline_ms < level.current_ms + level.interval_ms:
                break
            index += 1
        tick_number = deadline_ms // level.tick_ms
        slot = tick_number % SLOTS
        bucket = level.buckets[slot]
        due_ms = tick_number * level.tick_ms
        if bucket.due_ms != due_ms:  # Once per turn of the wheel.
            bucket.due_ms = due_ms
            heappush(self._due, (due_ms, index, slot))
        bucket[entry] = None
        entry.bucket = bucket
        return True
