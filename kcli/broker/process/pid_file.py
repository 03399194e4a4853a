"""PidFile: how `broker stop` and `broker status` find the process that serves a data directory.

`<data-dir>/kcli-broker.json` holds one JSON object: ``pid``, ``bootstrap_servers``, ``cluster_id``,
``started_at_ms`` (wall clock), ``record_walk`` ("compiled", "outdated" or "python"), ``is_ephemeral``:
whether the directory is removed when the broker ends, and ``client_properties``: the file for clients, if the
broker has made the keys for TLS. The broker holds an exclusive lock on it while it
runs. If a reader gets the lock, the file is left over from a killed process, even if its process id is in
use again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.storage import disk

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "kcli-broker.json"

_LOCK_ATTEMPTS = 200
_LOCK_PAUSE_SECONDS = 0.005


class RunningBroker(NamedTuple):
    """The content of the file."""

    pid: int
    bootstrap_servers: str
    cluster_id: str
    started_at_ms: int
    record_walk: str | None = None
    is_ephemeral: bool = False
    client_properties: str | None = None


class PidFile:
    """The pid file of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE_NAME
        self._descriptor: int | None = None

    @property
    def is_locked(self) -> bool:
        """Whether this process has the directory."""
        return self._descriptor is not None

    def lock(self) -> None:
        """Take the directory until `remove` or the end of the process. Raises `KcliError` if it is taken."""
        self._descriptor = self._open_locked()
        os.ftruncate(self._descriptor, 0)

    def write(self, broker: RunningBroker) -> None:
        """Write the data of a ready broker into the locked file."""
        assert self._descriptor is not None
        os.write(self._descriptor, json.dumps(broker._asdict()).encode() + b"\n")

    def lock_remains(self) -> bool:
        """Take the directory if a killed ephemeral broker has left it; return whether it did."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        if _lock(descriptor) and disk.leads_to(self.path, descriptor) and _is_ephemeral(descriptor):
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return self.is_locked

    def _open_locked(self) -> int:
        while True:
            descriptor = disk.open_file(self.path, os.O_RDWR | os.O_CREAT)
            if not _lock(descriptor):
                who = _holder(descriptor)
                os.close(descriptor)
                raise KcliError(
                    f"`{self.path.parent}` is in use by {who}",
                    hint="stop that broker, or use another directory",
                )
            if disk.leads_to(self.path, descriptor):
                return descriptor
            # Its former owner has removed the file.
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the file at the end of the process, if it was locked."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def read(self) -> RunningBroker | None:
        """Return the live broker of this directory, or None. Raises `KcliError` for an unreadable file."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KcliError(f"cannot read `{self.path}`: {error.strerror}") from error
        try:
            if _is_unlocked(descriptor):
                return None
            content = os.read(descriptor, 65536)
            # The file is locked but empty until the broker is ready.
            return RunningBroker(**json.loads(content)) if content else None
        except (ValueError, TypeError) as error:
            raise KcliError(f"`{self.path}` does not describe a broker") from error
        finally:
            os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Describe the holder of the lock: the process that the file names, if it names one."""
    try:
        pid = json.loads(os.pread(descriptor, 65536, 0))["pid"]
    except (ValueError, TypeError, KeyError):
        return "another process"
    return f"process {pid}"


def _is_ephemeral(descriptor: int) -> bool:
    """Return whether the file tells of an ephemeral broker that was ready."""
    try:
        content = json.loads(os.pread(descriptor, 65536, 0))
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("is_ephemeral") is True


def _lock(descriptor: int) -> bool:
    """Try to get the lock; return whether it is ours. Readers hold it only for a moment."""
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return True
    return False


def _is_unlocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True
