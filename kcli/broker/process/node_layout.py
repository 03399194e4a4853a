"""NodeLayout: the nodes of a process, with the data directories and ports of each.

| options | nodes of a start |
|---|---|
| no `--nodes` | all that the data directory has, one for a new directory |
| `--nodes n` | 1 to n; others in the directory stay down and can be started later |
| `node.id` and one node | this id |

Node i keeps its data in `<data-dir>/node-<i>`. `log.dirs` (or `log.dir`) belongs to a single node; with
several, each has `node-<i>` in every directory named there, and a later start recognizes this. `listeners`
and `advertised.listeners` are the first node's; each further node has its ports one higher. Port 0 is any
free port, for every node.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from kcli.broker.config.broker_config import BrokerConfig
from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import METADATA_TOPIC
from kcli.storage.dirs.log_directory import META_PROPERTIES, read_identity
from kcli.storage.disk import make_directory
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kcli.broker.config.listener_config import ListenerConfig
    from kcli.broker.security.users import User

LISTENER_LISTS = ("listeners", "advertised.listeners")

_LAST_PORT = 65_535
_PORT = re.compile(r":(\d+)\s*(?=,|$)", re.ASCII)
_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


def with_ports_moved(listeners: str, by: int) -> str:
    """Return a list of listeners for the node that is `by` nodes after the first.

    Raises `UsageError` if a port gets too high. A malformed list is returned as it is and refused later.
    """

    def moved(match: re.Match[str]) -> str:
        port = int(match[1])
        if port == 0 or not by:
            return match[0]
        if port <= _LAST_PORT and not 0 < port + by <= _LAST_PORT:
            raise UsageError(
                f"no port {port + by} for a node: the first one has {port}",
                hint="name a port that leaves room for all nodes, or 0 for any free one",
            )
        return f":{port + by}"

    return _PORT.sub(moved, listeners)


def check_ports(configs: Sequence[BrokerConfig]) -> None:
    """Raise `UsageError` if two nodes would listen on one port, or advertise one address."""
    if all(len(config.listener_configs) < 2 for config in configs):
        return  # Only with two listeners can one get the port of another.
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


_LOG_DIRS = ("log.dirs", "log.dir")
_NODE_IDS = ("node.id", "broker.id")
_NODE_DIRECTORY = re.compile(r"node-(0|[1-9]\d{0,8})", re.ASCII)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What to start. Without `data_dir` the process makes a temporary directory.

    `properties` are Kafka's broker properties; if they name listeners, `host` and `port` are ignored. `racks`
    are assigned to the nodes in turn.
    """

    data_dir: Path | None
    nodes: int | None = None
    host: str = "localhost"
    port: int = 9092
    properties: Mapping[str, str] = field(default_factory=dict)
    adopt: bool = False
    racks: Sequence[str] = ()
    is_ephemeral: bool = False
    """Whether `data_dir`, which was empty, is removed at the end."""
    security_protocol: str = "PLAINTEXT"
    """What the listeners speak if `properties` name none."""
    users: Sequence[User] = ()
    """Who shall be able to log in by SCRAM."""
    has_auto_tls: bool = False
    """Whether the process makes the keys for TLS, in the data directory."""


class NodeLayout:
    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        properties = options.properties
        self._first = int(_first_given(properties, _NODE_IDS) or 1)
        named = [os.path.abspath(path) for path in _log_dirs(properties)]
        is_several = options.nodes is not None and options.nodes > 1
        self.roots = named if is_several or any(_nodes_in(path) for path in named) else []
        """The directories of `log.dirs`, if every node has a directory of its own in each."""
        self._first_log_dirs = [] if self.roots else named
        if is_several and self._first != 1:
            name = next(name for name in _NODE_IDS if name in properties)
            raise UsageError(
                f"`{name}` is for one node, `--nodes` is {options.nodes}", hint="several are numbered from 1"
            )
        data_dir = options.data_dir
        if data_dir is not None and not named and _is_log_directory(os.fspath(data_dir), or_a_copy=True):
            raise UsageError(
                f"`{data_dir}` is the log directory of a node, not a directory of such directories",
                hint=f"serve it with `--override log.dirs={data_dir}`",
            )
        for root in self.roots:
            if _is_log_directory(root):
                raise UsageError(
                    f"`{root}` is the log directory of a single node, and cannot hold those of several",
                    hint="name other directories in `log.dirs`",
                )

    @property
    def data_dir(self) -> Path:
        assert self._options.data_dir is not None
        return self._options.data_dir

    def to_start(self) -> list[int]:
        """Return the ids of the nodes to start. Raises `UsageError`."""
        self._check_first()
        if self._options.nodes is not None:
            return list(range(self._first, self._first + self._options.nodes))
        return sorted({self._first, *self.present()}) if self._is_first_needed() else self.present()

    def present(self) -> list[int]:
        """Return the ids of the nodes that have a directory where a start of several looks for them."""
        if self.roots:
            return sorted({node_id for root in self.roots for node_id in _nodes_in(root)})
        data_dir = str(self.data_dir)
        return sorted(
            each
            for each in _nodes_in(data_dir)
            if _node_directory(data_dir, each) not in self._first_log_dirs
        )

    def _is_first_needed(self) -> bool:
        given = self._options.properties
        return not self.present() or bool(self._first_log_dirs) or any(name in given for name in _NODE_IDS)

    def _check_first(self) -> None:
        """Raise `UsageError` if the given id is not one of the existing nodes."""
        first, present = self._first, self.present()
        is_given = any(name in self._options.properties for name in _NODE_IDS)
        if not is_given or not present or first in present or self._first_log_dirs:
            return
        if any(os.path.isdir(path) for path in self.directories(first)):
            return  # Topics to adopt, or the remains of a node.
        word = "node" if len(present) == 1 else "nodes"
        where = "`, `".join(self.roots or [str(self.data_dir)])
        raise UsageError(
            f"`{where}` holds {word} {' and '.join(map(str, present))}, not {first}",
            hint="without `node.id` those start, and `kcli broker node add` adds one to a running broker",
        )

    def directories(self, node_id: int) -> tuple[str, ...]:
        """Return the directories of a node, if no property is for this node alone."""
        return tuple(_node_directory(root, node_id) for root in self.roots or [str(self.data_dir)])

    def config(self, node_id: int, *, rack: str | None = None) -> BrokerConfig:
        """Return the configuration of a node, optionally in a `rack` of its own. Raises `UsageError`."""
        options = self._options
        properties = dict(options.properties)
        if node_id != self._first:
            only_first = (*_NODE_IDS, *_LOG_DIRS)
            properties = {name: text for name, text in properties.items() if name not in only_first}
            properties["node.id"] = str(node_id)
        if self.roots:
            properties["log.dirs"] = ",".join(self.directories(node_id))
        if "listeners" not in properties:
            host = f"[{options.host}]" if ":" in options.host else options.host
            properties["listeners"] = f"{options.security_protocol}://{host}:{options.port}"
        for name in LISTENER_LISTS:
            if name in properties:
                properties[name] = with_ports_moved(properties[name], node_id - self._first)
        if rack is not None:
            properties["broker.rack"] = rack
        elif options.racks and "broker.rack" not in properties:
            properties["broker.rack"] = options.racks[(node_id - self._first) % len(options.racks)]
        return BrokerConfig.from_properties(properties)

    def log_dirs(self, config: BrokerConfig) -> tuple[str, ...]:
        return config.log_directories or self.directories(config.node_id)

    def rename_removed(self, node_id: int) -> str | None:
        """Rename the directories of a removed node, so that the next start does not bring it back.

        Returns the new paths, None if there were no directories. Raises `KcliError`.
        """
        kept = []
        for directory in self.directories(node_id):
            path, number = f"{directory}-removed", 1
            while os.path.exists(path):
                number += 1
                path = f"{directory}-removed-{number}"
            try:
                os.rename(directory, path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise KcliError(
                    f"node {node_id} is removed, but `{directory}` cannot be renamed: {error.strerror}",
                    hint="rename it, or the next start brings the node back",
                ) from error
            kept.append(path)
        return ", ".join(kept) or None


def make_directories(log_dirs: Iterable[str]) -> list[str]:
    """Make log directories, log those that cannot be made; return the new ones and their new parents."""
    made: list[str] = []
    for log_dir in log_dirs:
        try:
            make_directory(log_dir, made)
        except OSError as error:
            _log.error("cannot make the log directory `%s`: %s", log_dir, error.strerror)
    return made


def known_cluster_id(log_dirs: Iterable[str]) -> str | None:
    """Return the cluster id in log directories, None if all are new. Raises `KcliError` for a bad id."""
    known = None
    for log_dir in log_dirs:
        try:
            found = read_identity(log_dir)
        except OSError:
            continue  # It goes offline when it is opened.
        if found is not None and known is None:
            known = found.cluster_id
    return known


def is_id_lost(log_dirs: Iterable[str]) -> bool:
    """Return whether one log directory of a node has data but no id, although the others have ids.

    Raises `KcliError` for a directory that does not tell whose it is.
    """
    try:
        found = {log_dir: read_identity(log_dir) for log_dir in log_dirs}
        lacking = [each for each, identity in found.items() if identity is None or not identity.directory_id]
        names = os.listdir(lacking[0]) if len(lacking) == 1 else []
    except OSError:
        return False  # It goes offline as soon as it is opened.
    replicas = filter(None, map(parse_replica_directory, names))
    return any(not each.suffix for each in replicas)


def _first_given(properties: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return a number among the properties; an invalid one is refused when the configuration is made."""
    given = [properties[name] for name in names if properties.get(name, "").strip().isdecimal()]
    return given[0] if given else None


def _log_dirs(properties: Mapping[str, str]) -> list[str]:
    """Return the log directories of the properties; `log.dirs` takes precedence over `log.dir`."""
    given = next((properties[name] for name in _LOG_DIRS if properties.get(name)), "")
    return [word.strip() for word in given.split(",") if word.strip()]


def _node_directory(directory: str, node_id: int) -> str:
    return f"{directory}/node-{node_id}"


def _nodes_in(directory: str) -> list[int]:
    """Return the ids of the nodes that have a log directory in a directory."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = [int(match[1]) for name in names if (match := _NODE_DIRECTORY.fullmatch(name))]
    return [each for each in found if _is_log_directory(_node_directory(directory, each))]


def _is_log_directory(directory: str, *, or_a_copy: bool = False) -> bool:
    """Return whether a directory is that of a node; a repaired copy does not say of which cluster."""
    if os.path.exists(f"{directory}/{META_PROPERTIES}"):
        return True
    return or_a_copy and os.path.exists(f"{directory}/{METADATA_TOPIC}-0") and not _nodes_in(directory)
