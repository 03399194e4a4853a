"""Client quotas: the bytes a second that a client may write and read, and the pauses they demand (KIP-13).

Each quota is for an entity: a user, a client id, both, or the default of either. The most specific entity
with a quota counts, in the order of `_candidates`. The clients of a named entity share its quota; each client
of a default has a quota of its own. A rate is the mean over some samples, the current one incomplete; the
arithmetic is that of Kafka's classes `ClientQuotaManager`, `SampledStat` and `Rate`.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_image import (
    BYTE_RATES,
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    USER,
)
from kcli.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kcli.broker.metadata.metadata_image import QuotaEntity

LONGEST_MS = 2**31 - 1

_MAX_BYTES = 2**31 - 1
_MAX_FOUND = 10_000
_MAX_RATES = 1_000


class _Sample:
    """The bytes recorded since a moment."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class ByteRate:
    """Bytes a second over the last `samples` samples of `sample_ms` each."""

    __slots__ = ("_current", "_sample_ms", "_samples", "_sought")

    def __init__(self, *, samples: int, sample_ms: int) -> None:
        self._sought = samples
        self._sample_ms = sample_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, size: int, now_ms: int) -> None:
        """Record bytes; a negative number takes some back."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._sample_ms:
            # One more than asked for: the oldest began before the window.
            self._current = (self._current + 1) % (self._sought + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.reset(now_ms)
        sample.value += size
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Return the rate, and the milliseconds it is the mean over."""
        samples = self._samples
        if not samples:
            return 0.0, 1
        kept_ms = self._sought * self._sample_ms
        for sample in samples:
            if now_ms - sample.last_ms >= kept_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min([sample.start_ms for sample in samples])
        # As if nothing had come before: the rate over a few first moments would say little.
        missing = self._sought - 1 - elapsed_ms // self._sample_ms
        window_ms = max(elapsed_ms + max(missing, 0) * self._sample_ms, 1)
        return sum([sample.value for sample in samples]) * 1000 / window_ms, window_ms

    def is_over(self, now_ms: int) -> bool:
        """Return whether every sample is too old to count."""
        kept_ms = self._sought * self._sample_ms
        return all(now_ms - sample.last_ms >= kept_ms for sample in self._samples)


def throttle_time_ms(rate: float, limit: float, window_ms: int) -> int:
    """Return by how many milliseconds a longer window would bring a rate down to its limit.

    Kafka bounds this for request time, but not for bytes.
    """
    if rate <= limit:
        return 0
    return floor(min((rate - limit) / limit * window_ms + 0.5, LONGEST_MS))


class Allowance:
    """The limit of one client in bytes a second, and the rate that it may share with others."""

    __slots__ = ("_rate", "limit", "max_bytes")

    def __init__(self, rate: ByteRate, *, limit: float, max_bytes: int) -> None:
        self._rate = rate
        self.limit = limit
        self.max_bytes = max_bytes
        """The most bytes that the limit could ever let through at once."""

    def take(self, size: int, now_ms: int) -> int:
        """Record bytes; return the milliseconds the client has to pause."""
        self._rate.record(size, now_ms)
        rate, window_ms = self._rate.measure(now_ms)
        return throttle_time_ms(rate, self.limit, window_ms)

    def take_if_free(self, size: int, now_ms: int) -> int:
        """Do what `take` does, but record nothing if the client has to pause."""
        pause_ms = self.take(size, now_ms)
        if pause_ms:
            self._rate.record(-size, now_ms)
        return pause_ms


class ClientQuotas:
    """The limits of the clients of one node, and the rates they have reached."""

    def __init__(self, *, samples: int, sample_ms: int) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._limits: dict[str, dict[QuotaEntity, float]] = {key: {} for key in BYTE_RATES}
        self._rates: dict[tuple[str, str, str], ByteRate] = {}
        self._most_rates = _MAX_RATES
        self._found: dict[tuple[str, str, str], Allowance | None] = {}

    @property
    def has_any(self) -> bool:
        """Whether any limit is set."""
        return any(self._limits.values())

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace the limits; recorded bytes stay recorded."""
        self._limits = {
            key: {entity: values[key] for entity, values in quotas.items() if key in values}
            for key in BYTE_RATES
        }
        self._found.clear()

    def producer(self, client_id: str, now_ms: int, user: str = ANONYMOUS.name) -> Allowance | None:
        """Return the allowance of a user's client for writing, None without a limit."""
        return self._find(PRODUCER_BYTE_RATE, user, client_id, now_ms=now_ms)

    def consumer(self, client_id: str, now_ms: int, user: str = ANONYMOUS.name) -> Allowance | None:
        """Return the allowance of a user's client for reading, None without a limit."""
        return self._find(CONSUMER_BYTE_RATE, user, client_id, now_ms=now_ms)

    def _find(self, key: str, user: str, client_id: str, *, now_ms: int) -> Allowance | None:
        asked = key, user, client_id
        if asked in self._found:
            return self._found[asked]
        if len(self._found) >= _MAX_FOUND or len(self._rates) >= self._most_rates:
            self._forget(now_ms)
        found = self._found[asked] = self._resolve(key, user, client_id)
        return found

    def _resolve(self, key: str, user: str, client_id: str) -> Allowance | None:
        limits = self._limits[key]
        for entity, sharers in _candidates(user, client_id):
            limit = limits.get(entity)
            if limit is not None:
                rate = self._rates.get((key, *sharers))
                if rate is None:
                    rate = ByteRate(samples=self._samples, sample_ms=self._sample_ms)
                    self._rates[(key, *sharers)] = rate
                at_once = limit * (self._samples - 1) * self._sample_ms / 1000
                return Allowance(rate, limit=limit, max_bytes=int(min(at_once, _MAX_BYTES)))
        return None

    def _forget(self, now_ms: int) -> None:
        self._found.clear()
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_over(now_ms)}
        self._most_rates = max(_MAX_RATES, 2 * len(self._rates))


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    """Yield the entities of a client, most specific first, with the user and client id that share a rate.

    A client without an id belongs to no client entity, not even to the default.
    """
    for name in (user, None):
        if client_id:
            yield ((CLIENT_ID, client_id), (USER, name)), (user, client_id)
            yield ((CLIENT_ID, None), (USER, name)), (user, client_id)
        yield ((USER, name),), (user, "")
    if client_id:
        yield ((CLIENT_ID, client_id),), ("", client_id)
        yield ((CLIENT_ID, None),), ("", client_id)
