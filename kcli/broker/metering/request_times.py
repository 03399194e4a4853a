"""RequestTimes: the times of the requests to one node, by API (class `RequestMetrics` of Kafka). Pure.

| time | from | to |
|---|---|---|
| local | the request is complete | its handler has returned |
| remote | its handler has returned | the response is made |
| total | the request is complete | the response is made |

Remote is the time a request waits for records, replicas, the members of its group or a disk, and gives turns
to others; it is 0 for a request that is answered at once. A fetch counts as `FetchConsumer` or
`FetchFollower`, and both together as `Fetch`.

`TimeHistogram` keeps the distribution of many times in little memory. Times are whole nanoseconds. Up to
63 ns each has a bucket of its own; above, every power of two is cut into 32 buckets of the same width:

| times in ns | width of a bucket |
|---|---|
| 0 to 63 | 1 |
| 64 to 127 | 2 |
| 2^k to 2^(k+1) - 1 | 2^(k-5) |

A quantile is the middle of its bucket, so it is at most 1/64 (1.6 %) away from the exact one, and never below
the smallest or above the largest time. Count, sum, smallest and largest are exact. Times above `LONGEST_NS`
(13 days) share the last of `MOST_BUCKETS`.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

_BITS = 5
LONGEST_NS = (1 << 50) - 1
MOST_BUCKETS = (50 - _BITS - 1 << _BITS) + (2 << _BITS)


class TimeHistogram:
    """A distribution of times, exact to a bucket."""

    __slots__ = ("_counts", "count", "largest_ns", "smallest_ns", "sum_ns")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.sum_ns = 0
        self.smallest_ns = 0
        self.largest_ns = 0

    def add(self, time_ns: int) -> None:
        """Add a time; a negative one, of a clock that went back, counts as 0."""
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
        """Add all times of another histogram."""
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
        """The number of buckets with a time."""
        return len(self._counts)

    @property
    def mean_ns(self) -> float:
        """The mean, 0 without times."""
        return self.sum_ns / self.count if self.count else 0.0

    def quantile_ns(self, share: float) -> float:
        """Return the smallest time that at least this share of the times does not exceed, 0 without times."""
        rank = max(1, ceil(share * self.count))
        if rank >= self.count:
            return float(self.largest_ns)
        for bucket, count in sorted(self._counts.items()):
            rank -= count
            if rank <= 0:
                return min(max(_middle_ns(bucket), self.smallest_ns), self.largest_ns)
        return 0.0


def _bucket(time_ns: int) -> int:
    """Return the bucket of a time; longer times have higher buckets."""
    if time_ns > LONGEST_NS:
        time_ns = LONGEST_NS
    shift = time_ns.bit_length() - _BITS - 1
    return (shift << _BITS) + (time_ns >> shift) if shift > 0 else time_ns


def _middle_ns(bucket: int) -> float:
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
        """Return empty histograms."""
        return cls(TimeHistogram(), TimeHistogram(), TimeHistogram())

    def add_all(self, other: ApiTimes) -> None:
        """Add the times of other requests."""
        for own, others in zip(self, other, strict=True):
            own.add_all(others)


class RequestTimes:
    """The times of requests that arrived at `since` or later, in seconds of any clock."""

    __slots__ = ("_apis", "is_complete", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_complete = False
        """Whether the measurement has ended."""
        self._apis: dict[str, ApiTimes] = {}

    def add(self, api: str, *, local_ns: int, total_ns: int) -> None:
        """Add a request that has been answered, or that expects no response."""
        times = self._apis.get(api)
        if times is None:
            times = self._apis[api] = ApiTimes.none()
        times.local.add(local_ns)
        times.remote.add(total_ns - local_ns)
        times.total.add(total_ns)

    @property
    def by_api(self) -> dict[str, ApiTimes]:
        """The times of each API by name; `Fetch` holds those of both kinds of fetches."""
        found = dict(sorted(self._apis.items()))
        fetches = [found[name] for name in (FETCH_CONSUMER, FETCH_FOLLOWER) if name in found]
        if fetches:
            found[FETCH] = ApiTimes.none()
            for kind in fetches:
                found[FETCH].add_all(kind)
        return dict(sorted(found.items()))
