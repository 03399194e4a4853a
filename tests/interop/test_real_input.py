"""A real file of 50 MB through kcat and kcli, in and out: exactly the same lines come back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import lz4.frame
import pytest

from tests.support.producing import create_topic, end_offsets
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apache_kafka import KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

SIZE = 50_000_000
PARTITIONS = 6
KCLI = (sys.executable, "-m", "kcli")


@pytest.fixture(scope="module")
def real_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package index of this machine, or its package status, or the standard library: 50 MB of lines."""
    lists = Path("/var/lib/apt/lists")
    parts = [path.read_bytes() for path in sorted(lists.glob("*_Packages"))]
    parts += [lz4.frame.decompress(path.read_bytes()) for path in sorted(lists.glob("*_Packages.lz4"))]
    others = [Path("/var/lib/dpkg/status"), *sorted(Path(os.__file__).parent.glob("*.py"))]
    parts += [path.read_bytes() for path in others if path.is_file()]
    text = b"".join(parts)[:SIZE]
    lines = [line for line in text.splitlines() if line]
    whole = b"\n".join(lines) + b"\n"
    path = tmp_path_factory.mktemp("real") / "lines"
    with path.open("wb") as file:
        while file.tell() < SIZE:
            file.write(whole)
    return path


def run(*command: str, stdin: Path | None = None, stdout: Path | None = None) -> None:
    """Run a program to its end; it must succeed."""
    with (stdin or Path(os.devnull)).open("rb") as source, (stdout or Path(os.devnull)).open("wb") as sink:
        subprocess.run(command, stdin=source, stdout=sink, timeout=240, check=True)


def lines_of(path: Path) -> Counter[bytes]:
    return Counter(path.read_bytes().split(b"\n"))


@pytest.mark.parametrize("producer", ["kcat", "kcli"])
def test_every_line_comes_back(
    kcli_broker: KcliBroker,
    real_file: Path,
    tmp_path: Path,
    kafka_tool: KafkaTools,
    producer: str,
    kcli: Callable[..., object],
) -> None:
    need("kcat")
    topic, bootstrap = f"real-{producer}", kcli_broker.bootstrap
    create_topic(bootstrap, topic, PARTITIONS)
    if producer == "kcat":
        run("kcat", "-P", "-b", bootstrap, "-t", topic, "-z", "zstd", "-l", str(real_file))
    else:
        run(*KCLI, "produce", "-b", bootstrap, topic, "--compression-codec", "zstd", str(real_file))
    expected = lines_of(real_file)
    ends = end_offsets(bootstrap, topic)
    assert sum(end for _, end in ends.values()) == sum(expected.values()) - 1
    assert all(end > 0 for _, end in ends.values())
    by_kcat, by_kcli = tmp_path / "by-kcat", tmp_path / "by-kcli"
    run("kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", stdout=by_kcat)
    assert lines_of(by_kcat) == expected
    consume = ("consume", "-b", bootstrap, topic, "--from-beginning", "--until-end")
    run(*KCLI, *consume, stdout=by_kcli)
    assert lines_of(by_kcli) == expected
    described = kafka_tool("kafka-topics", "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    assert len(described.lines) == 1 + PARTITIONS
    listed = kcli("topics", "describe", topic, "-b", bootstrap)
    assert listed.out == described.output  # type: ignore[attr-defined]
