"""The lock of a target: one export writes to it at a time.

Where the file system has locks, it is a lock on the file `lock` of the state, which ends with the process.
Elsewhere the same file names its owner, who writes it again every 15 seconds; after a minute without that it
counts as abandoned. pyarrow cannot create an object exclusively, so two exports that start at the same
instant may both get the lock.

A process id alone does not identify a process: other machines may have the same name, containers have their
own numbers, and numbers are reused. So an owner also names the boot of its machine, its pid namespace and its
start time. Without `/proc` nothing is known about processes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from kcli.spark.export.failures import TargetLocked, TargetTrouble
from kcli.spark.export.target.layout import LOCK
from kcli.spark.export.target.local_target import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kcli.spark.export.target.target import Target

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"
_START_FIELD = 19
"""The start time in `/proc/<pid>/stat`, counted behind the program's name: clock ticks since boot."""


def this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "place": _place(), "process_start": _start_of(pid)}


def has_ended(owner: Mapping[str, Any]) -> bool:
    """Return whether the process of that identity has surely ended."""
    place, started = owner.get("place"), owner.get("process_start")
    if place is None or started is None or place != _place():
        return False
    try:
        return _start_of(int(owner["pid"])) != int(started)
    except (KeyError, TypeError, ValueError):
        return False


def _place() -> str | None:
    """Return what processes have in common that see each other by the same ids, until a reboot."""
    try:
        with open(_BOOT_ID) as file:
            return f"{file.read().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return None


HEARTBEAT_SECONDS = 15.0
STALE_SECONDS = 60.0


class Lock(Protocol):
    def check(self) -> None:
        """Raise `TargetLocked` if another export has taken it over."""

    def forget(self) -> None:
        """Remove the lock file on release: nothing was exported."""


@contextmanager
def locked(target: Target, now_ms: Callable[[], int]) -> Iterator[Lock]:
    """Hold a target's lock; raise `TargetLocked` if another export does."""
    if isinstance(target, LocalTarget):
        with _file_lock(target, now_ms) as lock:
            if lock is not None:
                yield lock
                return
    with _heartbeat_lock(target, now_ms) as held:
        yield held


class _FileLock:
    def __init__(self) -> None:
        self.forgotten = False

    def check(self) -> None:
        """Do nothing: it cannot be taken over."""

    def forget(self) -> None:
        self.forgotten = True


@contextmanager
def _file_lock(target: LocalTarget, now_ms: Callable[[], int]) -> Iterator[_FileLock | None]:
    """Hold the lock of a file; yield None if the file system has no locks."""
    path = target.local_path(LOCK)
    existed = os.path.isdir(target.root)
    os.makedirs(target.root, exist_ok=True)
    try:
        os.makedirs(target.state_uri, exist_ok=True)
    except PermissionError as error:
        raise TargetTrouble(
            f"cannot write to `{target.state_uri}`: {error.strerror}",
            hint="an export keeps its log beside its directory: choose one in a directory that is writable",
        ) from error
    descriptor = _locked_file(path, target.uri)
    if descriptor is None:
        yield None
        return
    lock = _FileLock()
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _owner(now_ms()))
        yield lock
    finally:
        if lock.forgotten:
            os.unlink(path)
            target.remove_empty_directories(os.path.dirname(LOCK))
            if not existed:
                with suppress(OSError):  # not empty
                    os.rmdir(target.root)
        os.close(descriptor)


def _locked_file(path: str, uri: str) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                return descriptor
            os.close(descriptor)
        except BlockingIOError:
            content = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise _refusal(uri, _parsed(content)) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
                return None
            raise


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the file still exists: the previous owner may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


class _HeartbeatLock:
    def __init__(self, target: Target, now_ms: Callable[[], int]) -> None:
        self._target = target
        self._now_ms = now_ms
        self._started_ms = now_ms()
        self._id = os.urandom(8).hex()
        self._ended = threading.Event()
        self._taken_by: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._beat, name="export-lock", daemon=True)

    def take(self) -> None:
        other = _parsed(self._target.read(LOCK) or b"")
        if other and _is_alive(other, self._now_ms()):
            raise _refusal(self._target.uri, other)
        self._write()
        self.check()
        self._thread.start()

    def check(self) -> None:
        if self._taken_by is None:
            now = _parsed(self._target.read(LOCK) or b"")
            self._taken_by = now if now.get("id") != self._id else None
        if self._taken_by is not None:
            raise _refusal(self._target.uri, self._taken_by)

    def forget(self) -> None:
        """Do nothing: the object is removed in any case."""

    def release(self) -> None:
        self._ended.set()
        self._thread.join()
        if self._taken_by is None:
            with suppress(OSError):  # it counts as abandoned after a minute
                self._target.remove(LOCK)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            try:
                self.check()
                self._write()
            except TargetLocked:
                return
            except OSError:  # the store is unreachable: the next beat may succeed
                continue

    def _write(self) -> None:
        self._target.write_atomically(
            LOCK, _owner(self._started_ms, id=self._id, heartbeat_ms=self._now_ms())
        )


@contextmanager
def _heartbeat_lock(target: Target, now_ms: Callable[[], int]) -> Iterator[_HeartbeatLock]:
    lock = _HeartbeatLock(target, now_ms)
    lock.take()
    try:
        yield lock
    finally:
        lock.release()


def _is_alive(owner: dict[str, Any], now_ms: int) -> bool:
    """Return whether a lock's owner may still run."""
    age_ms = now_ms - int(owner.get("heartbeat_ms", 0))
    return age_ms < STALE_SECONDS * 1000 and not has_ended(owner)


def _owner(started_ms: int, **more: object) -> bytes:
    return json.dumps({**this_process(), "started_ms": started_ms, **more}).encode() + b"\n"


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        owner = json.loads(content)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _refusal(uri: str, owner: dict[str, Any]) -> TargetLocked:
    who = f" ({owner['host']}, pid {owner['pid']})" if "host" in owner and "pid" in owner else ""
    started = owner.get("started_ms")
    since = time.strftime(" since %Y-%m-%d %H:%M:%S UTC", time.gmtime(started / 1000)) if started else ""
    return TargetLocked(
        f"another export is running{who}{since}: `{uri}`", hint="wait for it to end, or export elsewhere"
    )
