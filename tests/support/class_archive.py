"""The classes that Apache Kafka's broker loads, in an archive that its JVM maps instead of reading jars.

That halves the time in which a broker is there. Who finds no archive writes one when it is stopped, and it
stays in the cache for those that come later.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

from tests.support.toolchain import cache_directory, java_libraries

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def _path() -> Path:
    """Where the archive of these jars is for this JVM, which knows none of another's."""
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    return (
        cache_directory() / f"classes-{java_libraries().name}-{hashlib.sha256(version).hexdigest()[:12]}.jsa"
    )


class ClassArchive:
    """The archive as one JVM sees it: `options` when it is started, `keep` once it has ended."""

    def __init__(self) -> None:
        self._written = _path().with_suffix(f".{os.getpid()}-{id(self)}")

    def options(self) -> tuple[str, ...]:
        """What maps the archive, or writes it at the end."""
        if _path().exists():
            return (f"-XX:SharedArchiveFile={_path()}",)
        return (f"-XX:ArchiveClassesAtExit={self._written}",)

    def keep(self) -> None:
        """Leave to others what was written; a JVM that was killed has written nothing."""
        if self._written.exists():
            self._written.replace(_path())
