"""DumpFile: a file that a dump reads, recognized by its name; `find_files` finds them in directories."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError, UsageError
from kcli.forensics.contents.log_directories import META_PROPERTIES, NODE_PREFIX, is_log_directory
from kcli.storage.log_paths import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SWAP_SUFFIX,
    parse_replica_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRANSIENT_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"

_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})", re.ASCII)
_OFFSET_CHECKPOINT = "-offset-checkpoint"


class FileKind(StrEnum):
    """The kind of a file, in the order in which the files of one segment are read."""

    LOG = "log"
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    METADATA_SNAPSHOT = "checkpoint"
    LEADER_EPOCHS = "leader-epoch-checkpoint"
    OFFSETS = "offset-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    META_PROPERTIES = "meta.properties"


_BY_SUFFIX = {f".{kind}": kind for kind in list(FileKind)[:6]}
_ORDER = {kind: number for number, kind in enumerate(FileKind)}


class DumpFile(NamedTuple):
    """A file to read, with the offset and the epoch in its name.

    One that `is_listed` was found in a directory, and may be gone: a broker renames and deletes files.
    """

    path: str
    kind: FileKind
    offset: int | None = None
    epoch: int | None = None
    is_listed: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_replaced(self) -> bool:
        """Whether it was found among the files of a replica, of which it is no part any more.

        A broker keeps what it has deleted for `file.delete.delay.ms`.
        """
        return self.is_listed and self.path.endswith(DELETED_SUFFIX)

    @property
    def heading(self) -> str:
        """The path, with what it does not tell."""
        return f"{self.path} (deleted, not a part of the log)" if self.is_replaced else self.path


class UnknownFile(UsageError):
    """A file of no known kind."""


class Selection(NamedTuple):
    """Which files in directories are wanted; an empty set means all."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    kinds: frozenset[FileKind] = frozenset()

    def has_replica(self, name: str) -> bool:
        parsed = parse_replica_directory(name)
        if parsed is None:
            return False
        topic, partition = parsed.topic_partition
        is_wanted = not self.topics or topic in self.topics
        return is_wanted and (not self.partitions or partition in self.partitions)

    def has(self, file: DumpFile) -> bool:
        """Whether a listed file is wanted; of certain kinds only those that the log has."""
        return not self.kinds or (file.kind in self.kinds and not file.is_replaced)

    def nothing_in(self, directory: str) -> UsageError:
        """Return the error for a directory without a wanted file."""
        given = {"--topic": self.topics, "--partition": self.partitions, "--kind": self.kinds}
        asked = " and ".join(f"`{option}`" for option, values in given.items() if values)
        if asked:
            return UsageError(
                f"no file of what {asked} asked for: `{directory}`",
                hint=f"without {asked} the other files there are shown",
            )
        return UsageError(
            f"no files of a Kafka log in the directory: `{directory}`",
            hint="give a directory of a partition (orders-0) or of a broker (its `log.dirs`), or one of the "
            "files in it",
        )


def java_path(path: str) -> str:
    """Return a path as `java.io.File` prints it: without repeated or trailing slashes."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def identify(path: str) -> DumpFile:
    """Return the file that a name means. Raises `UnknownFile`, and `UsageError` for an impossible name."""
    name = os.path.basename(path)
    stem = next((name.removesuffix(each) for each in TRANSIENT_SUFFIXES if name.endswith(each)), name)
    whole = {
        LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCHS,
        PARTITION_METADATA: FileKind.PARTITION_METADATA,
        META_PROPERTIES: FileKind.META_PROPERTIES,
    }
    if stem in whole or stem.endswith(_OFFSET_CHECKPOINT):
        return DumpFile(path, whole.get(stem, FileKind.OFFSETS))
    digits, dot, suffix = stem.rpartition(".")
    kind = _BY_SUFFIX.get(dot + suffix)
    if kind is None:
        known = ", ".join([*_BY_SUFFIX, *whole, "*-offset-checkpoint"])
        raise UnknownFile(f"not a file of a log directory: `{path}`", hint=f"known are {known}")
    if kind is FileKind.METADATA_SNAPSHOT:
        return _identify_snapshot(path, stem, digits)
    if not (digits.isascii() and digits.isdigit()):
        raise UsageError(
            f"the name does not begin with an offset: `{path}`",
            hint="a segment is named by its first offset, in 20 digits: 00000000000000000042.log",
        )
    return DumpFile(path, kind, int(digits))


def _identify_snapshot(path: str, name: str, digits: str) -> DumpFile:
    if name == BOOTSTRAP_SNAPSHOT:
        return DumpFile(path, FileKind.METADATA_SNAPSHOT)
    match = _SNAPSHOT_NAME.fullmatch(digits)
    if match is None:
        raise UsageError(
            f"the name does not tell offset and epoch: `{path}`",
            hint="a metadata snapshot is named by both: 00000000000000000042-0000000001.checkpoint",
        )
    return DumpFile(path, FileKind.METADATA_SNAPSHOT, int(match[1]), int(match[2]))


def find_files(paths: Sequence[str], selection: Selection) -> Iterator[DumpFile | KcliError]:
    """Yield the files that the paths mean, in reading order, and errors about the paths."""
    for given in paths:
        if not given:
            yield UsageError("a path is empty")
            continue
        path = java_path(given)
        try:
            if os.path.isdir(path):
                found = False
                for found_file in _files_of(path, selection):
                    found = True
                    yield found_file
                if not found:
                    raise selection.nothing_in(path)
            else:
                yield _identified(path)
        except OSError as error:
            yield KcliError(f"cannot read `{error.filename or path}`: {error.strerror}")
        except KcliError as error:
            yield error


def _identified(path: str) -> DumpFile:
    """Return the file at a path; one that does not exist raises `OSError`, whatever its name."""
    try:
        return identify(path)
    except KcliError:
        os.stat(path)
        raise


def _files_of(directory: str, selection: Selection) -> Iterator[DumpFile]:
    """Yield the wanted files in a replica, a log directory or a data directory of kcli."""
    own: list[DumpFile] = []
    inner: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                inner.append(entry.name)
                continue
            try:
                file = identify(f"{directory.rstrip('/')}/{entry.name}")
            except UsageError:
                continue
            own.append(file._replace(is_listed=True))
    if is_log_directory(directory) and (selection.topics or selection.partitions):
        own = []
    yield from sorted(filter(selection.has, own), key=_reading_order)
    for name in sorted(inner, key=_replica_order):
        path = f"{directory.rstrip('/')}/{name}"
        is_node = name.startswith(NODE_PREFIX) and is_log_directory(path)
        if is_node or selection.has_replica(name):
            yield from _files_of(path, selection)


def _reading_order(file: DumpFile) -> tuple[bool, bool, int, int, str]:
    return file.is_replaced, file.offset is None, file.offset or 0, _ORDER[file.kind], file.name


def _replica_order(name: str) -> tuple[str, int]:
    parsed = parse_replica_directory(name)
    return parsed.topic_partition if parsed is not None else (name, -1)
