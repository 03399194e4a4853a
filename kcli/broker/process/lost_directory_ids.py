"""Finds directory ids that were lost with `meta.properties`: the metadata log still has them.

Partitions are assigned to directories by id, so a node with a new id would lead none of them, although all
data is there. Imported only if an id is missing.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_damage import batches_of, refuse_inner_damage
from kcli.broker.metadata.metadata_log import decoded
from kcli.broker.metadata.metadata_replay import InvalidMetadata, MetadataBatch, replay
from kcli.broker.metadata.metadata_snapshot import InvalidSnapshot, SnapshotId, decode_snapshot
from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import uuid_to_text
from kcli.storage.dirs.log_directory import read_identity
from kcli.storage.log_paths import LOG_SUFFIX, base_offset_of, parse_replica_directory, segment_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.topics import TopicPartition

_log = logging.getLogger(__name__)


def find_lost_ids(log_dirs: Mapping[int, tuple[str, ...]], lost: Iterable[int]) -> dict[int, bytes]:
    """Return, by node, the id with which its one directory without an id was registered.

    `log_dirs` are those of all nodes. A node is left out if several ids are possible, or if its directory
    holds nothing that the metadata places under the id. Raises `KcliError` if the metadata exists but cannot
    be read.
    """
    image = _newest_image(paths[0] for paths in log_dirs.values())
    if image is None:
        return {}
    back: dict[int, bytes] = {}
    for node_id in lost:
        with suppress(OSError):  # An unreadable id might be the lost one: no directory gets it.
            found = _id_of(image, node_id, log_dirs[node_id])
            if found is not None:
                back[node_id] = found
    for node_id, directory_id in back.items():
        line = (
            "a log directory of node %d has lost its `directory.id`: it gets %s again, the id in the metadata"
        )
        _log.warning(line, node_id, uuid_to_text(directory_id))
    return back


def _id_of(image: MetadataImage, node_id: int, log_dirs: Sequence[str]) -> bytes | None:
    """Return the only id that the directory without one can have had, None if that is not certain."""
    identities = {path: read_identity(path) for path in log_dirs if os.path.isdir(path)}
    known = {each.directory_id for each in identities.values() if each is not None and each.directory_id}
    lacking = [path for path, each in identities.items() if each is None or not each.directory_id]
    broker = image.brokers.get(node_id)
    free = [] if broker is None else [each for each in broker.directories if each not in known]
    if len(free) != 1 or len(lacking) != 1:
        return None
    names = os.listdir(lacking[0])
    replicas = [each for name in names if (each := parse_replica_directory(name)) and not each.suffix]
    # The metadata log is not in the metadata: it lies in the first directory.
    is_first = lacking[0] == log_dirs[0] and f"{METADATA_TOPIC}-0" in names
    is_its = any(_place_of(image, each.topic_partition, node_id) == free[0] for each in replicas)
    return free[0] if is_first or is_its else None


def _place_of(image: MetadataImage, partition: TopicPartition, node_id: int) -> bytes | None:
    """Return the id of the directory in which a node has a partition, None if it has no such partition."""
    topic = image.topics.get(partition.topic)
    if topic is None or partition.partition >= len(topic.partitions):
        return None
    return topic.partitions[partition.partition].directory_of(node_id)


def _newest_image(metadata_directories: Iterable[str]) -> MetadataImage | None:
    """Return the image of the newest copy of the metadata log, None if there is no copy."""
    images: list[MetadataImage] = []
    refused: InvalidMetadata | None = None
    for log_directory in metadata_directories:
        try:
            images.append(_read_image(f"{log_directory}/{METADATA_TOPIC}-0"))
        except InvalidMetadata as error:
            refused = refused or error
        except OSError:
            continue  # The error comes again when the copy is opened.
    if refused is not None and not images:
        raise refused
    return max(images, key=lambda image: (image.epoch, image.offset), default=None)


def _read_image(directory: str) -> MetadataImage:
    """Read a copy without changing it. Raises `OSError` and `InvalidMetadata`."""
    names = os.listdir(directory)
    snapshot = _newest_snapshot(directory, names)
    batches = [] if snapshot is None else [snapshot]
    offsets = sorted(each for name in names if (each := base_offset_of(name, LOG_SUFFIX)) is not None)
    for offset in offsets:
        path = segment_path(directory, offset, LOG_SUFFIX)
        refuse_inner_damage(path, is_last=offset == offsets[-1])
        with open(path, "rb") as file:
            data = file.read()
        later = (decoded(batch) for batch in batches_of(data))
        batches += [each for each in later if snapshot is None or each.last_offset > snapshot.last_offset]
    return replay(batches)


def _newest_snapshot(directory: str, names: Iterable[str]) -> MetadataBatch | None:
    for snapshot_id in sorted(filter(None, map(SnapshotId.parse, names)), reverse=True):
        with open(f"{directory}/{snapshot_id.file_name}", "rb") as file, suppress(InvalidSnapshot):
            return decode_snapshot(file.read(), snapshot_id)
    return None
