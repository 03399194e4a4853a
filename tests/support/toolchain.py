"""Toolchains of the interop tests: found, built and cached once, or the reason why not.

On a developer's machine a missing program skips a test with the reason. Where the environment says `CI=true`
it fails, so that no client drops out of the matrix unseen. Everything built lands outside the tree, in
`KCLI_INTEROP_CACHE` or `~/.cache/kcli-interop`, or with the temporary files where nobody may write at home,
under a name that carries a hash of its sources.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

INTEROP = Path(__file__).resolve().parent.parent / "interop"
BUILD_TIMEOUT_SECONDS = 540
PAUSES_SECONDS = (5, 30)
"""Before what downloads is tried another time."""
PATIENT_MAVEN = (
    "-Dmaven.wagon.http.retryHandler.count=5",
    "-Daether.connector.http.retryHandler.count=5",
)


class BuildFailed(Exception):
    """A build tool did not make what it was to make."""


_reasons: dict[Path, str] = {}
"""Why something could not be made: nobody tries it again for every test."""


def in_ci() -> bool:
    """Whether a missing toolchain is a failure."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def unavailable(reason: str) -> NoReturn:
    """Skip with the reason, or fail with it in CI."""
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need(*programs: str) -> None:
    """Skip or fail unless every program is on the path."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        unavailable(f"not installed: {', '.join(missing)}")


def _home() -> Path | None:
    """The user's home, if there is one that may be written to."""
    home = Path(os.path.expanduser("~"))
    return home if home.is_absolute() and os.access(home, os.W_OK | os.X_OK) else None


@functools.cache
def cache_directory() -> Path:
    """Where built programs and downloaded libraries stay between runs."""
    configured = os.environ.get("KCLI_INTEROP_CACHE")
    home = _home()
    if configured:
        path = Path(configured)
    elif home is not None:
        path = home / ".cache" / "kcli-interop"
    else:
        path = Path(tempfile.gettempdir()) / f"kcli-interop-{os.getuid()}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def fingerprint(paths: Iterable[Path]) -> str:
    """Twelve hex digits that change with the name or content of any of the files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _environment() -> dict[str, str]:
    """That of build tools: they keep at home what they have downloaded."""
    home = _home()
    if home is not None:
        return {**os.environ, "HOME": str(home)}
    home = cache_directory() / "home"
    home.mkdir(exist_ok=True)
    options = f"{os.environ.get('MAVEN_OPTS', '')} -Duser.home={home}"
    return {**os.environ, "HOME": str(home), "MAVEN_OPTS": options}


def build(
    arguments: Sequence[str | os.PathLike[str]], directory: Path, *, pauses: Sequence[float] = ()
) -> None:
    """Run a build tool; BuildFailed shows what it said. After each pause it has another attempt."""
    for pause in (*pauses, None):
        try:
            subprocess.run(
                arguments,
                cwd=directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=BUILD_TIMEOUT_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            if pause is None:
                said = error.output if isinstance(error.output, str) else ""
                raise BuildFailed(f"{error}\n{said[-3000:]}") from error
            time.sleep(pause)  # Others may be asking the same server.
        else:
            return


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Keep other processes from making the same meanwhile, and from downloading the same for it."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made(target: Path, make: Callable[[Path], None]) -> Path:
    """What has its name in the cache once it is whole; `make` writes it elsewhere if it is not there yet."""
    if target in _reasons:
        unavailable(_reasons[target])
    if not target.exists():
        with alone(target):
            if not target.exists():
                staging = target.with_name(f"{target.name}.new")
                _remove(staging)  # What somebody left who was killed half way.
                try:
                    make(staging)
                except BuildFailed as failed:
                    _reasons[target] = str(failed)
                    unavailable(str(failed))
                staging.rename(target)
    return target


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@functools.cache
def java_libraries() -> Path:
    """The directory with one folder of jars per Maven module: `apache-kafka`, `clients-4.3` …"""
    need("java", "javac", "mvn")
    source = INTEROP / "java"

    def make(staging: Path) -> None:
        command = ["mvn", "-q", "-B", "-ntp", *PATIENT_MAVEN, "dependency:copy-dependencies"]
        build([*command, f"-Dlibraries={staging}"], source, pauses=PAUSES_SECONDS)

    return made(cache_directory() / f"java-{fingerprint(source.rglob('pom.xml'))}", make)


@functools.cache
def java_classes(module: str, *names: str) -> Path:
    """Compile `interop/java/<name>.java` against a module's jars; returns the class directory."""
    sources = [INTEROP / "java" / f"{name}.java" for name in names]
    libraries = java_libraries() / module

    def make(staging: Path) -> None:
        command = ["javac", "--release", "11", "-nowarn", "-encoding", "UTF-8", "-d", staging]
        build([*command, "-cp", f"{libraries}/*", *sources], INTEROP / "java")

    return made(cache_directory() / f"classes-{names[0]}-{fingerprint(sources)}", make)


@functools.cache
def go_program(name: str, source: Path = INTEROP / "go") -> Path:
    """Build the command `<source>/<name>`; returns the executable."""
    need("go")
    files = [path for path in source.rglob("*") if path.is_file()]

    def make(staging: Path) -> None:
        build(["go", "build", "-o", staging, f"./{name}"], source, pauses=PAUSES_SECONDS)

    return made(cache_directory() / f"go-{name}-{fingerprint(files)}", make)


@functools.cache
def node_directory() -> Path:
    """A copy of `interop/node` with its modules installed."""
    need("node", "npm")
    source = INTEROP / "node"
    files = [path for path in source.iterdir() if path.suffix in (".js", ".json")]

    def make(staging: Path) -> None:
        staging.mkdir(parents=True)
        for path in files:
            shutil.copy(path, staging)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        build(command, staging, pauses=PAUSES_SECONDS)

    return made(cache_directory() / f"node-{fingerprint(files)}", make)
