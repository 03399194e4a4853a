"""Log directories and the replica directories in them, by their names and `meta.properties`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition

META_PROPERTIES = "meta.properties"
NODE_PREFIX = "node-"
"""The data directory of a kcli broker holds a log directory of each node under this name."""


def is_log_directory(path: str) -> bool:
    """Whether a broker has written its `meta.properties` into a directory."""
    return os.path.exists(f"{path}/{META_PROPERTIES}")


def log_directories(path: str) -> list[str]:
    """Return the nodes' log directories in a data directory of kcli, else `path` itself. Raises `OSError`."""
    nodes = [f"{path}/{name}" for name in sorted(os.listdir(path)) if name.startswith(NODE_PREFIX)]
    return [node for node in nodes if is_log_directory(node)] or [path]


def replica_directories(directory: str) -> list[tuple[str, TopicPartition]]:
    """Return the replica directories by name, without future, stray and deleted ones. Raises `OSError`."""
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    parsed = [(f"{directory}/{name}", parse_replica_directory(name)) for name in names]
    return [(path, name.topic_partition) for path, name in parsed if name is not None and not name.suffix]
