"""Whether `partition.metadata` and `meta.properties` say whose the files are, as others do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.uuids import uuid_to_text
from kcli.storage.checkpoints import CheckpointError, read_partition_metadata, read_small_file
from kcli.storage.log_directory import META_PROPERTIES, parse_identity
from kcli.storage.log_paths import PARTITION_METADATA
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_partition_metadata(directory: str, report: Callable[[Finding], None]) -> bytes | None:
    """Return the topic id of a replica; report a file that is missing or damaged. Raises `OSError`."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        topic_id = read_partition_metadata(directory)
    except CheckpointError as error:
        report(Finding(path, FindingKind.PARTITION_METADATA_DAMAGED, error.message))
        return None
    if topic_id is None:
        report(Finding(path, FindingKind.PARTITION_METADATA_MISSING, "no topic id"))
    return topic_id


def check_topic_ids(
    replicas: Iterable[tuple[str, str, bytes | None]], report: Callable[[Finding], None]
) -> None:
    """Report where (topic, directory, topic id) of several replicas contradict each other."""
    first: dict[str, tuple[str, bytes]] = {}
    for topic, directory, topic_id in replicas:
        if topic_id is None:
            continue
        other, other_id = first.setdefault(topic, (directory, topic_id))
        if topic_id != other_id:
            message = f"topic id {uuid_to_text(topic_id)}, but {uuid_to_text(other_id)} in {other}"
            report(Finding(f"{directory}/{PARTITION_METADATA}", FindingKind.TOPIC_ID_MISMATCH, message))


def check_meta_properties(directories: Iterable[str], report: Callable[[Finding], None]) -> None:
    """Report files of log directories that are damaged or contradict each other. Raises `OSError`."""
    cluster: tuple[str, str] | None = None
    owners: dict[bytes, str] = {}
    for directory in directories:
        path = f"{directory}/{META_PROPERTIES}"
        try:
            found = parse_identity(read_small_file(path), path)
        except FileNotFoundError:
            continue
        except KcliError as error:
            report(Finding(path, FindingKind.META_PROPERTIES_DAMAGED, error.message))
            continue
        if found is None:
            continue
        if found.cluster_id is not None:
            cluster = cluster or (found.cluster_id, path)
            if found.cluster_id != cluster[0]:
                message = f"cluster {found.cluster_id}, but {cluster[0]} in {cluster[1]}"
                report(Finding(path, FindingKind.META_PROPERTIES_MISMATCH, message))
        if found.directory_id is not None:
            other = owners.setdefault(found.directory_id, path)
            if other != path:
                message = f"{other} has the same directory id"
                report(Finding(path, FindingKind.META_PROPERTIES_MISMATCH, message))
