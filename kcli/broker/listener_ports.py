"""The ports of several nodes: each has the listeners of the first, one port further on from node to node.

What `listeners` and `advertised.listeners` say is the first node's. A port 0 is any free one, for every node.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kcli.broker.config import BrokerConfig
    from kcli.broker.listener_config import ListenerConfig

LISTENER_LISTS = ("listeners", "advertised.listeners")

_MOST = 65_535
_PORT = re.compile(r":(\d+)\s*(?=,|$)", re.ASCII)
_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


def with_ports_moved(listeners: str, by: int) -> str:
    """Return a list of listeners as it is for the node that is `by` nodes after the first.

    Raises `UsageError` if there is no such port. What is malformed stays as it is, to be refused as that.
    """

    def moved(match: re.Match[str]) -> str:
        port = int(match[1])
        if port == 0 or not by:
            return match[0]
        if port <= _MOST and not 0 < port + by <= _MOST:
            raise UsageError(
                f"no port {port + by} for a node: the first one has {port}",
                hint="name a port that leaves room for all nodes, or 0 for any free one",
            )
        return f":{port + by}"

    return _PORT.sub(moved, listeners)


def check_ports(configs: Sequence[BrokerConfig]) -> None:
    """Raise `UsageError` if two nodes would listen on one port, or clients be told one address for both."""
    if all(len(config.listener_configs) < 2 for config in configs):
        return  # It takes two listeners for one to get where the other is.
    for one, other in combinations(configs, 2):
        for first, second in _same_ports(one.listener_configs, other.listener_configs):
            if first.host == second.host or {first.host, second.host} & _EVERY_ADDRESS:
                raise UsageError(
                    f"port {first.port} would be that of `{first.name}` on node {one.node_id}, "
                    f"and of `{second.name}` on node {other.node_id}",
                    hint="each node has the ports after those of the one before: leave room in `listeners`",
                )
        for first, second in _same_ports(one.advertised_listener_configs, other.advertised_listener_configs):
            if first.host == second.host:
                raise UsageError(
                    f"clients would be told `{first.host}:{first.port}` for node {one.node_id}, "
                    f"and for node {other.node_id}",
                    hint="leave room for the ports of all nodes in `advertised.listeners`",
                )


def _same_ports(
    one: Iterable[ListenerConfig], other: Sequence[ListenerConfig]
) -> Iterator[tuple[ListenerConfig, ListenerConfig]]:
    """Yield the listeners of two nodes that have the same fixed port."""
    for first in one:
        for second in other:
            if first.port == second.port != 0:
                yield first, second
