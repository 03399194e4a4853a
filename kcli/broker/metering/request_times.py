"""RequestTimes: how long the requests to one node took, by API (class `RequestMetrics` of Kafka). Pure.

| time | from | to |
|---|---|---|
| local | the request is whole | its handler has returned |
| remote | its handler has returned | the answer is made |
| total | the request is whole | the answer is made |

Remote is what a request waits for records, replicas, the members of its group or a disk, and what lets others
have turns in between; it is 0 for one that is answered at once. A fetch counts as `FetchConsumer` or
`FetchFollower`, and both together as `Fetch`.

TimeHistogram: many times in little memory, and how they are distributed. Pure.

Times are whole nanoseconds. Up to 63 ns each has a bucket of its own; from there on every power of two is cut
into 32 buckets of the same width:

| times in ns | width of a bucket |
|---|---|
| 0 to 63 | 1 |
| 64 to 127 | 2 |
| 2^k to 2^(k+1) - 1 | 2^(k-5) |

A quantile is the middle of the bucket that it lies in, so it is at most 1/64 (1.6 %) away from the time that
sorting all of them would give, and never below the smallest or above the largest. Count, sum, smallest and
largest are exact, and so is a quantile that is the largest. Times above `LONGEST_NS` (13 days) share the last
of `MOST_BUCKETS`.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

_BITS = 5
LONGEST_NS = (1 << 50) - 1
MOST_BUCKETS = (50 - _BITS - 1 << _BITS) + (2 << _BITS)


class TimeHistogram:
    """Times, of which only those of the same bucket are told apart no more."""

    __slots__ = ("_counts", "count", "largest_ns", "smallest_ns", "sum_ns")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.sum_ns = 0
        self.smallest_ns = 0
        self.largest_ns = 0

    def add(self, time_ns: int) -> None:
        """Count a time; a clock that went back makes it 0."""
        if time_ns < 0:
            time_ns = 0
        if not self.count or time_ns < self.smallest_ns:
            self.smallest_ns = time_ns
        if time_ns > self.largest_ns:
            self.largest_ns = time_ns
        self.count += 1
        self.sum_ns += time_ns
        bucket = _bucket(time_ns)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def add_all(self, other: TimeHistogram) -> None:
        """Count all times of another, too."""
        if not other.count:
            return
        self.smallest_ns = min(self.smallest_ns, other.smallest_ns) if self.count else other.smallest_ns
        self.largest_ns = max(self.largest_ns, other.largest_ns)
        self.count += other.count
        self.sum_ns += other.sum_ns
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count

    @property
    def buckets(self) -> int:
        """How many buckets hold a time."""
        return len(self._counts)

    @property
    def mean_ns(self) -> float:
        """The mean of all times, 0 without any."""
        return self.sum_ns / self.count if self.count else 0.0

    def quantile_ns(self, share: float) -> float:
        """Return the smallest time that at least this share of all does not exceed, 0 without any."""
        rank = max(1, ceil(share * self.count))
        if rank >= self.count:
            return float(self.largest_ns)
        for bucket, count in sorted(self._counts.items()):
            rank -= count
            if rank <= 0:
                return min(max(_middle_ns(bucket), self.smallest_ns), self.largest_ns)
        return 0.0


def _bucket(time_ns: int) -> int:
    """Return the number of the bucket of a time; longer times have higher ones."""
    if time_ns > LONGEST_NS:
        time_ns = LONGEST_NS
    shift = time_ns.bit_length() - _BITS - 1
    return (shift << _BITS) + (time_ns >> shift) if shift > 0 else time_ns


def _middle_ns(bucket: int) -> float:
    """Return the middle of what a bucket holds."""
    shift = max(0, (bucket >> _BITS) - 1)
    first = bucket - (shift << _BITS) << shift
    return first + ((1 << shift) - 1) / 2


FETCH, FETCH_CONSUMER, FETCH_FOLLOWER = "Fetch", "FetchConsumer", "FetchFollower"


class ApiTimes(NamedTuple):
    """The times of the requests of one API."""

    local: TimeHistogram
    remote: TimeHistogram
    total: TimeHistogram

    @classmethod
    def none(cls) -> ApiTimes:
        """Return those of no request."""
        return cls(TimeHistogram(), TimeHistogram(), TimeHistogram())

    def add_all(self, other: ApiTimes) -> None:
        """Count those of other requests, too."""
        for own, others in zip(self, other, strict=True):
            own.add_all(others)


class RequestTimes:
    """The times of requests that came at `since` or later, in seconds of any clock."""

    __slots__ = ("_apis", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self._apis: dict[str, ApiTimes] = {}

    def add(self, api: str, *, local_ns: int, total_ns: int) -> None:
        """Count a request that has been answered, or had no answer to get."""
        times = self._apis.get(api)
        if times is None:
            times = self._apis[api] = ApiTimes.none()
        times.local.add(local_ns)
        times.remote.add(total_ns - local_ns)
        times.total.add(total_ns)

    @property
    def by_api(self) -> dict[str, ApiTimes]:
        """The times of each API that was seen, by name; all fetches together stand before either kind."""
        found = dict(sorted(self._apis.items()))
        fetches = [found[name] for name in (FETCH_CONSUMER, FETCH_FOLLOWER) if name in found]
        if fetches:
            found[FETCH] = ApiTimes.none()
            for kind in fetches:
                found[FETCH].add_all(kind)
        return dict(sorted(found.items()))
