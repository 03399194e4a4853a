"""RequestTimes: how long the requests to one node took, by API (class `RequestMetrics` of Kafka). Pure.

| time | from | to |
|---|---|---|
| local | the request is whole | its handler has returned |
| remote | its handler has returned | the answer is made |
| total | the request is whole | the answer is made |

Remote is what a request waits for records, replicas, the members of its group or a disk, and what lets others
have turns in between; it is 0 for one that is answered at once. A fetch counts as `FetchConsumer` or
`FetchFollower`, and both together as `Fetch`.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.broker.metering.time_histogram import TimeHistogram

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
