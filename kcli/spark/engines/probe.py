"""The probe: checks that executors have what tasks need, before a plan depends on it.

Wheels with compiled code cannot travel in a zip, and tasks read log directories where they run. The function
travels by value and imports nothing of kcli, so that it runs where kcli is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext

NEEDED_MODULES = ("kcli", "pyarrow", "numpy", "trio", "crc32c", "lz4", "snappy", "cramjam")


class Host(NamedTuple):
    """What is missing on a host."""

    name: str
    modules: tuple[str, ...]
    directories: tuple[str, ...]


def probe(context: SparkContext, directories: Sequence[str]) -> None:
    """Ask the executors; raise `KcliError` that names what is missing on one of them."""
    count = max(2, 2 * int(context.defaultParallelism))
    question = question_of(NEEDED_MODULES, tuple(directories))
    answers = context.parallelize(range(count), count).mapPartitions(question).collect()
    check(Host(*answer) for answer in answers)


def question_of(
    modules: tuple[str, ...], directories: tuple[str, ...]
) -> Callable[[Iterable[int]], Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]]:
    """Return the function that runs on executors."""

    def missing(_: Iterable[int]) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        import importlib.util
        import os
        import socket

        yield (
            socket.gethostname(),
            tuple(name for name in modules if importlib.util.find_spec(name) is None),
            tuple(path for path in directories if not os.access(path, os.R_OK | os.X_OK)),
        )

    return missing


def check(hosts: Iterable[Host]) -> None:
    """Raise `KcliError` for the first host that lacks something."""
    for host in sorted(set(hosts)):
        if host.modules:
            raise KcliError(
                f"the executors on {host.name} lack {', '.join(host.modules)}",
                hint="install kcli with its extra `spark` there, or ship a packed environment with "
                "--conf spark.archives and PYSPARK_PYTHON",
            )
        if host.directories:
            raise KcliError(
                f"the executors on {host.name} cannot read {', '.join(host.directories)}",
                hint="--log-dir must be at the same path on every executor; or read with --bootstrap-server",
            )
