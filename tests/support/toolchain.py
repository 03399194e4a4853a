"""Toolchains of the interop tests: found, built and cached once, or the reason why not.

On a developer's machine a missing program skips a test with the reason. Where the environment says `CI=true`
it fails, so that no client drops out of the matrix unseen. Everything built lands outside the tree, in
`KCLI_INTEROP_CACHE` or `~/.cache/kcli-interop`, under a name that carries a hash of its sources.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

INTEROP = Path(__file__).resolve().parent.parent / "interop"
JAVA_CLIENTS = ("4.3", "3.9", "2.8", "1.1", "0.10")
BUILD_TIMEOUT_SECONDS = 540
DOWNLOAD_ATTEMPTS = 3


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


def cache_directory() -> Path:
    """Where built programs and downloaded libraries stay between runs."""
    configured = os.environ.get("KCLI_INTEROP_CACHE")
    path = Path(configured) if configured else Path.home() / ".cache" / "kcli-interop"
    path.mkdir(parents=True, exist_ok=True)
    return path


def fingerprint(paths: Iterable[Path]) -> str:
    """Twelve hex digits that change with the name or content of any of the files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def build(arguments: Sequence[str | os.PathLike[str]], directory: Path, *, attempts: int = 1) -> None:
    """Run a build tool; a failure shows what the tool said. One that downloads may need another attempt."""
    for _ in range(attempts):
        try:
            done = subprocess.run(
                arguments,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=BUILD_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            unavailable(f"took over {BUILD_TIMEOUT_SECONDS} s: {arguments[0]}")
        if done.returncode == 0:
            return
    unavailable(f"failed: {' '.join(map(str, arguments))}\n{done.stdout[-3000:]}")


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Keep other processes from making the same meanwhile, and from downloading the same for it."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def commit_directory(staging: Path, target: Path) -> None:
    """Give a finished directory its name; when another run was first, theirs stays."""
    try:
        staging.rename(target)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        if not target.is_dir():
            raise


@functools.cache
def java_libraries() -> Path:
    """The directory with one folder of jars per Maven module: `apache-kafka`, `clients-4.3` …"""
    need("java", "javac", "mvn")
    source = INTEROP / "java"
    target = cache_directory() / f"java-{fingerprint(source.rglob('pom.xml'))}"
    with alone(target):
        if not target.is_dir():
            staging = target.with_name(f"{target.name}.{os.getpid()}")
            command = ["mvn", "-q", "-B", "-ntp", "dependency:copy-dependencies", f"-Dlibraries={staging}"]
            build(command, source, attempts=DOWNLOAD_ATTEMPTS)
            commit_directory(staging, target)
    return target


@functools.cache
def java_classes(module: str, *names: str) -> Path:
    """Compile `interop/java/<name>.java` against a module's jars; returns the class directory."""
    sources = [INTEROP / "java" / f"{name}.java" for name in names]
    libraries = java_libraries() / module
    target = cache_directory() / f"classes-{names[0]}-{fingerprint(sources)}"
    if not target.is_dir():
        staging = target.with_name(f"{target.name}.{os.getpid()}")
        build(
            ["javac", "--release", "11", "-nowarn", "-d", staging, "-cp", f"{libraries}/*", *sources],
            INTEROP / "java",
        )
        commit_directory(staging, target)
    return target


@functools.cache
def go_program(name: str, source: Path = INTEROP / "go") -> Path:
    """Build the command `<source>/<name>`; returns the executable."""
    need("go")
    files = [path for path in source.rglob("*") if path.is_file()]
    target = cache_directory() / f"go-{name}-{fingerprint(files)}"
    with alone(target):
        if not target.is_file():
            staging = target.with_name(f"{target.name}.{os.getpid()}")
            build(["go", "build", "-o", staging, f"./{name}"], source, attempts=DOWNLOAD_ATTEMPTS)
            staging.rename(target)
    return target


@functools.cache
def node_directory() -> Path:
    """A copy of `interop/node` with its modules installed."""
    need("node", "npm")
    source = INTEROP / "node"
    files = [source / name for name in ("package.json", "package-lock.json", "client.js", "member.js")]
    target = cache_directory() / f"node-{fingerprint(files)}"
    with alone(target):
        if not target.is_dir():
            staging = target.with_name(f"{target.name}.{os.getpid()}")
            staging.mkdir(parents=True)
            for path in files:
                shutil.copy(path, staging)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            build(command, staging, attempts=DOWNLOAD_ATTEMPTS)
            commit_directory(staging, target)
    return target
