"""Topics whose data is there and that the metadata does not know: the metadata log has lost its end.

A log that was cut between two batches looks whole. But a directory gets segments only after the record of its
topic is on the disk, and goes after the record of its deletion.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_damage import ADOPT_HINT, has_segment
from kcli.broker.metadata.metadata_replay import InvalidMetadata
from kcli.protocol.internal.metadata_records import RemoveTopicRecord
from kcli.protocol.topics import METADATA_TOPIC
from kcli.storage.checkpoints import CheckpointError, read_partition_metadata
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.metadata_log import MetadataLog

_NAMED = 5


def refuse_forgotten_topics(log_dirs: Collection[str], image: MetadataImage, log: MetadataLog) -> None:
    """Raise `InvalidMetadata` if there is data of topics that `log`, whose content `image` is, never had.

    One node of several, or one directory, may have been offline when a topic was deleted. If a snapshot has
    replaced the record of that, nobody can tell.
    """
    found = dict(_unknown_topics(log_dirs, image))
    has_others = len(image.brokers) > 1 or len(log_dirs) > 1
    if not found or (has_others and log.snapshot() is not None):
        return
    for batch in log.replay():
        for record in batch.records:
            if isinstance(record, RemoveTopicRecord):
                found.pop(record.topic_id, None)
    if not found:
        return
    names = sorted(f"`{name}`" for name in set(found.values()))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    raise InvalidMetadata(
        f"the metadata log has lost its end: it does not know {', '.join(names[:_NAMED])}{more}, "
        f"whose data is there: `{log.directory}`",
        hint=f"restore it from a copy; without one, {ADOPT_HINT}",
    )


def _unknown_topics(log_dirs: Iterable[str], image: MetadataImage) -> Iterator[tuple[bytes, str]]:
    """Yield ids and names of topics that have a segment in one of the directories, but no metadata."""
    for log_dir in log_dirs:
        names: list[str] = []
        with suppress(OSError):  # It goes offline when it is opened.
            names = os.listdir(log_dir)
        for name in names:
            parsed = parse_replica_directory(name)
            if parsed is None or parsed.suffix or parsed.topic_partition.topic == METADATA_TOPIC:
                continue
            topic = parsed.topic_partition.topic
            if topic not in image.topics:
                topic_id = _id_of_data(f"{log_dir}/{name}")
                if topic_id is not None and topic_id not in image.topics_by_id:
                    yield topic_id, topic


def _id_of_data(directory: str) -> bytes | None:
    """Return the topic id of a replica that has a segment; None if that cannot be told."""
    with suppress(OSError, CheckpointError):
        return read_partition_metadata(directory) if has_segment(directory) else None
    return None
