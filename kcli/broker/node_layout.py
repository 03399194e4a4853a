"""NodeLayout: which nodes a process hosts, and where each has its data and its port.

Node i listens on the i-th port from `--port` on and keeps its data in `<data-dir>/node-<i>`. Without
`--nodes` a start brings up the nodes that the data directory has, those that were added to a running
process included; a new one gets one node. With `--nodes` it brings up so many, from node 1 on; others that
the directory has stay down and can be started when there is need.

Properties that can only be meant for one node (`node.id`, `log.dirs`, `listeners` …) are the first node's.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.broker.config import BrokerConfig
from kcli.errors import UsageError
from kcli.storage.log_directory import META_PROPERTIES, MetaProperties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_PER_NODE = ("node.id", "broker.id", "log.dirs", "log.dir", "listeners", "advertised.listeners")
_NODE_DIRECTORY = re.compile(r"node-(0|[1-9]\d{0,8})", re.ASCII)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What to start. `data_dir` None is for a temporary directory, which the process makes.

    `properties` are Kafka's broker properties and stand over `host` and `port` where they name listeners.
    `racks` are given to the nodes in turn.
    """

    data_dir: Path | None
    nodes: int | None = None
    host: str = "localhost"
    port: int = 9092
    properties: Mapping[str, str] = field(default_factory=dict)
    adopt: bool = False
    racks: Sequence[str] = ()


class NodeLayout:
    """The layout that options make."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        properties = options.properties
        self._first = int(_first_given(properties, ("node.id", "broker.id")) or 1)
        if options.nodes is not None and options.nodes > 1:
            for name in _PER_NODE:
                if name in properties:
                    raise UsageError(f"`{name}` is for one node, `--nodes` is {options.nodes}")

    @property
    def data_dir(self) -> Path:
        """Where the nodes' directories are."""
        assert self._options.data_dir is not None
        return self._options.data_dir

    def to_start(self) -> list[int]:
        """Return the ids of the nodes that a start brings up."""
        if self._options.nodes is not None:
            return list(range(self._first, self._first + self._options.nodes))
        return sorted({self._first, *self.present()}) if self._is_first_needed() else self.present()

    def present(self) -> list[int]:
        """Return the ids of the nodes that have a directory in the data directory."""
        try:
            names = os.listdir(self.data_dir)
        except OSError:
            return []
        found = [int(match[1]) for name in names if (match := _NODE_DIRECTORY.fullmatch(name))]
        directories = {node_id: self.directory(node_id) for node_id in found}
        given = {
            *_words(self._options.properties.get("log.dirs")),
            *_words(self._options.properties.get("log.dir")),
        }
        return sorted(
            node_id
            for node_id, directory in directories.items()
            if directory not in given and os.path.exists(f"{directory}/{META_PROPERTIES}")
        )

    def _is_first_needed(self) -> bool:
        return not self.present() or any(name in self._options.properties for name in _PER_NODE)

    def directory(self, node_id: int) -> str:
        """Return where a node has its data, if no property says otherwise."""
        return str(self.data_dir / f"node-{node_id}")

    def config(self, node_id: int, *, rack: str | None = None) -> BrokerConfig:
        """Return the configuration of a node, in a rack of its own if one is given. Raises `UsageError`."""
        options = self._options
        properties = dict(options.properties)
        if node_id != self._first:
            properties = {name: text for name, text in properties.items() if name not in _PER_NODE}
            properties["node.id"] = str(node_id)
        if "listeners" not in properties:
            port = options.port + node_id - self._first if options.port else 0
            host = f"[{options.host}]" if ":" in options.host else options.host
            properties["listeners"] = f"PLAINTEXT://{host}:{port}"
        if rack is not None:
            properties["broker.rack"] = rack
        elif options.racks and "broker.rack" not in properties:
            properties["broker.rack"] = options.racks[(node_id - self._first) % len(options.racks)]
        return BrokerConfig.from_properties(properties)

    def log_dirs(self, config: BrokerConfig) -> tuple[str, ...]:
        """Return the log directories of a node."""
        return config.log_directories or (self.directory(config.node_id),)


def make_directories(log_dirs: Iterable[str]) -> None:
    """Make log directories; what cannot be made is logged, for it is only noticed one by one otherwise."""
    for log_dir in log_dirs:
        try:
            os.makedirs(log_dir, exist_ok=True)
        except OSError as error:
            _log.error("cannot make the log directory `%s`: %s", log_dir, error.strerror)


def known_cluster_id(log_dirs: Iterable[str]) -> str | None:
    """Return the cluster id that log directories were made with, None if they are new."""
    for log_dir in log_dirs:
        path = f"{log_dir}/{META_PROPERTIES}"
        try:
            with open(path, "rb") as file:
                cluster_id = MetaProperties.decode(file.read(), path).cluster_id
        except OSError:
            continue  # a new directory, or one that goes offline as soon as it is opened
        if cluster_id is not None:
            return cluster_id
    return None


def _first_given(properties: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return a number among properties; what is none is refused when the configuration is made."""
    given = [properties[name] for name in names if properties.get(name, "").strip().isdecimal()]
    return given[0] if given else None


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",")]
