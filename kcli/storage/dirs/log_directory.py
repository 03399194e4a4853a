"""LogDirectory: one of the directories (`log.dirs`) that hold replicas: identity, lock, clean-stop marker.

`meta.properties` identifies its node and cluster, as Java properties. KRaft writes version 1. Version 0 has
`broker.id` instead of `node.id` and no directory id, and is rewritten as version 1:

    node.id=1
    directory.id=Hz_-APEL7nFRgOmi52JNrw     unique for every directory; added when it is missing
    version=1
    cluster.id=10PS7KEtSkWEtrRRtY6qKA

A damaged file, or one that does not name both node and cluster (in version 0: one of them), is refused and
never replaced, since nothing else may identify the data. Kafka takes a directory offline if it cannot read
the file, and refuses to start if the file names neither.

`.lock` is locked while a process of Kafka or kcli uses the directory, and contains its process id. The lock
belongs to the open file, if the system has such locks, so that it excludes a second user in the same process
too.

`.kafka_cleanshutdown` exists only while the broker is stopped. It says that all logs were closed cleanly:
`{"version":0,"brokerEpoch":5}`; older brokers left it empty. It is removed before loading, so that a crash
during the load counts as unclean.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.protocol.uuids import uuid_from_text, uuid_to_text
from kcli.storage import disk
from kcli.storage.checkpoints import write_atomically
from kcli.storage.log_paths import parse_replica_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

META_PROPERTIES = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

VERSIONS = (0, 1)
RESTORE_HINT = (
    "write `version=1`, `node.id` and `cluster.id` into it: the cluster's other directories have the same "
    "`cluster.id`"
)

_FLOCK = "@hhqqi0q"
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)


class MetaProperties(NamedTuple):
    """The identity of a log directory. Any field may be missing in version 0."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None
    version: int = 1

    def encode(self, now_ms: int) -> bytes:
        """Return the bytes of the file in version 1, with a comment of the time, as Java writes it."""
        written = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
        lines = ["#", f"#{written}", f"node.id={self.node_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={uuid_to_text(self.directory_id)}")
        lines += ["version=1", f"cluster.id={self.cluster_id}", ""]
        return "\n".join(lines).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> MetaProperties:
        """Parse the bytes of the file. Raises `KcliError`."""
        fields = {}
        for line in data.decode(errors="replace").splitlines():
            name, separator, value = line.partition("=")
            if separator and not line.lstrip().startswith(("#", "!")):
                fields[name.strip()] = value.strip().replace("\\", "")
        try:
            version = _number(fields, "version") or 0
            directory_id = fields.get("directory.id")
            return cls(
                fields.get("cluster.id") or None,
                _number(fields, "node.id" if version else "broker.id"),
                None if directory_id is None else uuid_from_text(directory_id),
                version,
            )
        except ValueError as error:
            raise KcliError(f"`{path}` is damaged: {error}") from error

    def check(self, path: str) -> None:
        """Raise `KcliError` if the owner is missing or the version unknown, so that no broker may start."""
        if self.version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise KcliError(
                f"`{path}` has an unknown version, {self.version}",
                hint=f"a newer release wrote it, or it is damaged: versions {known} are known",
            )
        if self.cluster_id is None and self.node_id is None:
            raise KcliError(f"`{path}` is damaged: it names neither a node nor a cluster")
        if self.version and (self.cluster_id is None or self.node_id is None):  # as `MetaProperties.Builder`
            missing = "cluster.id" if self.cluster_id is None else "node.id"
            raise KcliError(f"`{path}` is damaged: `{missing}` is missing")


def read_identity(directory: str) -> MetaProperties | None:
    """Return the identity of a log directory, None for a new one.

    Raises `KcliError` if its file does not identify it, and `OSError`.
    """
    path = f"{directory}/{META_PROPERTIES}"
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    try:
        return parse_identity(data, path)
    except KcliError as error:
        raise KcliError(error.message, hint=error.hint or RESTORE_HINT) from error


def parse_identity(data: bytes, path: str) -> MetaProperties | None:
    """Parse the identity file of a log directory; None if it is empty and the directory has no replicas.

    Raises `KcliError` if it does not identify the directory, and `OSError`.
    """
    if not data and not any(map(parse_replica_directory, os.listdir(os.path.dirname(path) or "."))):
        return None
    found = MetaProperties.decode(data, path)
    found.check(path)
    return found


class LogDirectory:
    """One log directory of this process.

    `is_online` turns False at the first I/O error and stays so. `is_loaded` says that all its logs are
    loaded, so that its checkpoints may be written.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.directory_id = b""
        self.is_online = True
        self.is_loaded = False
        self.was_clean = False
        self._lock: int | None = None
        self._directory: int | None = None
        self._made: list[str] = []
        """The names of the files that `open` has created."""

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r}, is_online={self.is_online})"

    def open(self, *, cluster_id: str, node_id: int, now_ms: int, new_id: Callable[[], bytes]) -> None:
        """Create the directory if it does not exist, lock it, and check or write its identity.

        Raises `KcliError` if another process uses it or it belongs to another node, and `OSError`.
        """
        disk.make_directory(self.path)
        os.listdir(self.path)
        self._acquire_lock()
        try:
            # Kept open, so that no other directory gets its inode number.
            self._directory = disk.open_file(self.path, os.O_RDONLY | os.O_DIRECTORY)
            self._identify(cluster_id, node_id, now_ms, new_id)
        except BaseException:
            self.abandon()
            raise

    def _identify(self, cluster_id: str, node_id: int, now_ms: int, new_id: Callable[[], bytes]) -> None:
        found = read_identity(self.path) or MetaProperties(None, None, None, 0)
        for what, own, other in (("cluster", cluster_id, found.cluster_id), ("node", node_id, found.node_id)):
            if other is not None and other != own:
                raise KcliError(
                    f"`{self.path}` belongs to {what} {other}, not {own}",
                    hint="use another directory, or delete this one if its data is not needed",
                )
        self.directory_id = found.directory_id or new_id()
        wanted = MetaProperties(cluster_id, node_id, self.directory_id)
        if wanted != found:
            path = f"{self.path}/{META_PROPERTIES}"
            is_new = not os.path.exists(path)
            write_atomically(path, wanted.encode(now_ms))
            if is_new:
                self._made.append(META_PROPERTIES)

    def _acquire_lock(self) -> None:
        path = f"{self.path}/{LOCK}"
        while True:
            try:
                descriptor, is_new = _open_or_make(path)
            except FileNotFoundError:
                # The process that created the directory failed and removed it.
                disk.make_directory(self.path)
                continue
            try:
                _lock_file(descriptor)
                if disk.leads_to(path, descriptor):
                    break
            except BlockingIOError as error:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                os.close(descriptor)
                who = f"process {holder}" if holder.isdigit() else "another process"
                raise KcliError(
                    f"`{self.path}` is in use by {who}", hint="stop that broker, or use another directory"
                ) from error
            except OSError:
                os.close(descriptor)
                raise
            # The process with the lock abandoned the directory and removed the locked file.
            os.close(descriptor)
        self._lock = descriptor
        if is_new:
            self._made.append(LOCK)
        os.ftruncate(descriptor, 0)
        disk.write_fully(descriptor, f"{os.getpid()}\n".encode())

    def is_in_place(self) -> bool:
        """Whether the path still leads to the directory that was opened."""
        try:
            return self._directory is None or disk.leads_to(self.path, self._directory)
        except OSError as error:
            return disk.is_shortage(error)  # Then nobody knows.

    def abandon(self) -> None:
        """Remove the files that `open` created, if nothing else was done since, and release the lock.

        The lock is held until then, so nothing else uses the directory. The lock file stays if other files
        do, because another process may wait for it. The directory itself stays.
        """
        if self._lock is not None and self._directory is not None:
            with suppress(OSError):  # The next start deals with leftovers as after a kill.
                if META_PROPERTIES in self._made:
                    os.unlink(META_PROPERTIES, dir_fd=self._directory)
                if LOCK in self._made and os.listdir(self._directory) == [LOCK]:
                    os.unlink(LOCK, dir_fd=self._directory)
        self._made.clear()
        self.release()

    @property
    def is_locked(self) -> bool:
        """Whether it belongs to this node, which has not ended."""
        return self._lock is not None

    def release(self) -> None:
        """Release the lock and close the directory."""
        for descriptor in (self._lock, self._directory):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._directory = None

    def clean_epoch(self) -> int | None:
        """Return the broker epoch in which all logs here were closed cleanly, None if they were not.

        Raises `OSError`.
        """
        try:
            with open(f"{self.path}/{CLEAN_SHUTDOWN}", "rb") as file:
                return int(json.loads(file.read())["brokerEpoch"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            return -1  # Kafka up to 3.6 left the file empty.

    def take_clean_marker(self) -> None:
        """Set `was_clean` and remove the marker. Raises `OSError`."""
        path = f"{self.path}/{CLEAN_SHUTDOWN}"
        self.was_clean = os.path.exists(path)
        if self.was_clean:
            os.unlink(path)

    def write_clean_marker(self, broker_epoch: int) -> None:
        """Write the marker that every log here was closed cleanly. Raises `OSError`."""
        content = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        descriptor = disk.open_file(f"{self.path}/{CLEAN_SHUTDOWN}", flags)
        try:
            disk.write_fully(descriptor, content.encode())
            disk.sync(descriptor)
        finally:
            os.close(descriptor)


def _number(fields: Mapping[str, str], name: str) -> int | None:
    """Return a numeric field, None if it is missing. Raises `ValueError`."""
    text = fields.get(name)
    if text is not None and not _NUMBER.fullmatch(text):
        raise ValueError(f"`{name}` is not a number: {text}")
    return None if text is None else int(text)


def _open_or_make(path: str) -> tuple[int, bool]:
    """Open a file for writing; return its descriptor and whether it is new. Raises `OSError`."""
    try:
        return disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
    except FileExistsError:
        return disk.open_file(path, os.O_RDWR | os.O_CREAT), False


def _lock_file(descriptor: int) -> None:
    """Lock a file exclusively while it is open. Raises `BlockingIOError` if it is locked."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        # Unlike the lock of a process, that of an open file survives closing another descriptor of the same
        # file, and excludes this process too. It conflicts with Java's locks.
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from error
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
