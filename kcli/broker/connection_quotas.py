"""ConnectionQuotas: how many connections a node takes, altogether and from one address.

`max.connections.per.ip` (with `max.connections.per.ip.overrides`) refuses: the new connection is closed.
`max.connections` makes room: the least recently used connection is closed for the new one (KIP-402).
Every accepted connection is counted once and given back once, however it ends.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED = 2**31 - 1


class ConnectionQuotas:
    """The connections of one node, counted by peer address."""

    def __init__(
        self,
        *,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.overrides = dict(overrides or {})
        self.total = 0
        self._by_address: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        """Whether one connection has to go."""
        return self.max_connections < UNLIMITED and self.total > self.max_connections

    def limit(self, address: str) -> int:
        """Return how many connections `address` may hold."""
        return self.overrides.get(address, self.max_connections_per_ip)

    def count(self, address: str) -> int:
        """Return how many connections `address` holds."""
        return self._by_address[address]

    def take(self, address: str) -> bool:
        """Count one more connection from `address`; return False, and count nothing, beyond its limit."""
        if self._by_address[address] >= self.limit(address):
            return False
        self._by_address[address] += 1
        self.total += 1
        return True

    def give_back(self, address: str) -> None:
        """Count one connection from `address` as ended."""
        left = self._by_address[address] - 1
        if left < 0:
            raise ValueError(f"no connection from {address} is counted")
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
        self.total -= 1


def parse_overrides(text: str) -> dict[str, int]:
    """Return the limits in `max.connections.per.ip.overrides`, as in ``10.0.0.1:5,::1:100``."""
    limits = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, separator, limit = item.rpartition(":")
        if not separator or not address.strip() or not limit.strip().isdecimal():
            raise UsageError(f"invalid entry in `max.connections.per.ip.overrides`: {item}")
        limits[address.strip().strip("[]")] = int(limit)
    return limits
