"""SmallDisk: a real ext4 file system of a few megabytes, which gets full, or read-only after an error.

It is mounted in a mount namespace of its own, so nothing of it is left when the process that holds the
namespace ends. That takes root, and a kernel that lets it have loop devices.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import ChildProcess, ProcessFailed
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE_BYTES = 24 << 20
PROGRAMS = ("unshare", "nsenter", "mkfs.ext4", "e2fsck", "findmnt", "mount", "umount")


def why_not() -> str | None:
    """Return why this machine cannot have one, None if it can; skip or fail without the programs."""
    need(*PROGRAMS)
    if os.geteuid() != 0:
        return "only root mounts file systems"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None


class SmallDisk:
    """Mounted at `path` for the programs that `command` starts; this process has it at `seen`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "small"
        self.path.mkdir()
        self._image = directory / "image"
        with self._image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        holder = ["unshare", "--mount", "sh", "-c", "echo holding && exec sleep infinity"]
        self._holder = ChildProcess(holder, stderr=directory / "holder.log")
        self._holder.wait_for_line(lambda line: line == "holding", timeout=60, what="namespace")
        self.mount()

    @property
    def seen(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self.path}")

    def command(self, *words: str | os.PathLike[str]) -> list[str]:
        """Return a command line that runs a program where the disk is mounted."""
        return ["nsenter", "--target", str(self._holder.pid), "--mount", *map(str, words)]

    def run(self, *words: str | os.PathLike[str], codes: Sequence[int] = (0,)) -> str:
        """Run a program where the disk is mounted, and return what it prints."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise ProcessFailed(f"{words}: {done.stderr}")
        return done.stdout.strip()

    def mount(self) -> None:
        self.run("mount", "-o", "loop,errors=remount-ro", self._image, self.path)

    def fill(self, left_bytes: int) -> None:
        """Leave so many bytes."""
        volume = os.statvfs(self.seen)
        with (self.seen / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, volume.f_bavail * volume.f_frsize - left_bytes)

    def free(self) -> None:
        """Give back what `fill` has taken."""
        (self.seen / "filler").unlink()

    def fail(self) -> None:
        """Let the file system meet an error, as one on a broken disk does: it is read-only from now on."""
        device = self.run("findmnt", "--noheadings", "--output", "SOURCE", self.path)
        Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("1")

    def repair(self) -> None:
        """Check the file system and mount it again, when nobody uses it any more."""
        self.run("umount", self.path)
        self.run("e2fsck", "-f", "-y", self._image, codes=(0, 1))
        self.mount()

    def close(self) -> None:
        """End the namespace, and the mount with it."""
        self._holder.kill()
