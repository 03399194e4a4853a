"""A broker's directories and files: their modes whatever the umask allows, and less where it allows less."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kcli.control_socket import SOCKET_NAME
from tests.support.ports import free_ports
from tests.support.processes import ChildProcess
from tests.support.producing import create_topic, delete_topic, produce
from tests.support.records import TestRecord

if TYPE_CHECKING:
    from pathlib import Path


def modes(directory: Path) -> dict[str, str]:
    """Return the permissions of a directory and everything below, in octal, by path."""
    paths = [directory, *directory.rglob("*")]
    return {str(path.relative_to(directory)): oct(stat.S_IMODE(path.lstat().st_mode)) for path in paths}


def wanted(path: Path, directory_mode: int, file_mode: int) -> str:
    if path.name == SOCKET_NAME:
        return oct(0o600)
    return oct(directory_mode if path.is_dir() else file_mode)


@pytest.mark.parametrize(
    ("umask", "directory_mode", "file_mode"),
    [(0o000, 0o750, 0o640), (0o022, 0o750, 0o640), (0o077, 0o700, 0o600)],
    ids=["all", "usual", "private"],
)
def test_nobody_else_reads_what_a_broker_writes(
    umask: int, directory_mode: int, file_mode: int, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    data = tmp_path / "above" / "data"
    command = [sys.executable, "-m", "kcli", "broker"]
    where = ["--data-dir", str(data)]
    start = [*command, "start", "--daemon", "--host", "127.0.0.1", "--port", str(port), *where]

    def set_umask() -> None:
        os.umask(umask)

    starter = ChildProcess(start, stderr=tmp_path / "errors", preexec=set_umask)
    assert starter.wait_for_line(lambda line: line.startswith("ready"), timeout=60, what="ready line")
    try:
        bootstrap = f"127.0.0.1:{port}"
        create_topic(bootstrap, "orders", config={"segment.bytes": str(1 << 20)})
        values = [TestRecord(0, number, 0, None, b"x" * 100_000, ()) for number in range(15)]
        produce(bootstrap, "orders", values, {"enable.idempotence": True})
        create_topic(bootstrap, "gone")
        delete_topic(bootstrap, "gone")
        running = modes(tmp_path / "above")
        checked = {path: wanted(tmp_path / "above" / path, directory_mode, file_mode) for path in running}
        assert running == checked
    finally:
        stopped = subprocess.run([*command, "stop", *where], capture_output=True, check=False)
        starter.kill()
    assert stopped.returncode == 0, stopped.stderr
    names = {path.name for path in data.rglob("*")}
    assert {"kcli-broker.log", ".kafka_cleanshutdown", "meta.properties", "partition.metadata"} <= names
    assert len([name for name in names if name.endswith(".snapshot")]) > 1
    after = modes(tmp_path / "above")
    assert after == {path: wanted(tmp_path / "above" / path, directory_mode, file_mode) for path in after}
