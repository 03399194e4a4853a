"""A log directory: its identity, its lock, and its clean-stop marker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.protocol.uuids import random_uuid, uuid_from_text
from kcli.storage.dirs import log_directory
from kcli.storage.dirs.log_directory import LogDirectory, MetaProperties
from tests.storage.log_harness import NOW_MS

APACHE = Path(__file__).parents[2] / "golden" / "storage" / "apache-4.3.1"
OWN_ID = uuid_from_text("Hz_-APEL7nFRgOmi52JNrw")


def opened(path: Path, *, cluster_id: str = "cluster", node_id: int = 1) -> LogDirectory:
    directory = LogDirectory(str(path))
    directory.open(cluster_id=cluster_id, node_id=node_id, now_ms=NOW_MS, new_id=lambda: OWN_ID)
    return directory


def test_a_new_directory_gets_an_identity(tmp_path: Path) -> None:
    directory = opened(tmp_path / "a" / "b")
    assert directory.directory_id == OWN_ID
    assert (tmp_path / "a" / "b" / "meta.properties").read_text() == (
        "#\n#Thu Oct 09 08:53:20 UTC 2025\nnode.id=1\ndirectory.id=Hz_-APEL7nFRgOmi52JNrw\nversion=1\n"
        "cluster.id=cluster\n"
    )


def test_an_identity_is_written_as_apache_kafka_does() -> None:
    data = (APACHE / "meta.properties").read_bytes()
    found = MetaProperties.decode(data, "meta.properties")
    assert found.version == 1
    written = found.encode(NOW_MS).splitlines()
    expected = data.splitlines()
    assert len(written[1]) == len(expected[1])
    assert written[:1] + written[2:] == expected[:1] + expected[2:]


def test_an_identity_is_kept(tmp_path: Path) -> None:
    opened(tmp_path).release()
    before = (tmp_path / "meta.properties").read_bytes()
    directory = LogDirectory(str(tmp_path))
    directory.open(cluster_id="cluster", node_id=1, now_ms=NOW_MS + 10**9, new_id=random_uuid)
    assert directory.directory_id == OWN_ID
    assert (tmp_path / "meta.properties").read_bytes() == before
    directory.release()


@pytest.mark.parametrize(
    "text",
    [
        "version=1\nnode.id=1\ncluster.id=cluster\n",
        "# old\nversion=0\nbroker.id=1\n",
        "broker.id=1\ncluster.id=cluster\n",
        "! no more\n\nversion = 1\n node.id = 1\ncluster.id = cluster\n",
        "version=0\ncluster.id=cluster\n",
        "cluster.id=cluster\n",
        "",
    ],
)
def test_what_is_missing_is_added(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    opened(tmp_path).release()
    found = MetaProperties.decode((tmp_path / "meta.properties").read_bytes(), "")
    assert found == MetaProperties("cluster", 1, OWN_ID, 1)


@pytest.mark.parametrize(("cluster_id", "node_id", "what"), [("other", 1, "cluster"), ("cluster", 2, "node")])
def test_the_directory_of_another_is_refused(
    tmp_path: Path, cluster_id: str, node_id: int, what: str
) -> None:
    opened(tmp_path).release()
    with pytest.raises(KcliError, match=f"belongs to {what}"):
        opened(tmp_path, cluster_id=cluster_id, node_id=node_id)
    opened(tmp_path).release()


NOBODYS = "it names neither a node nor a cluster"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"version=x\n", "`version` is not a number: x"),
        (b"version=1\nnode.id=one\n", "`node.id` is not a number: one"),
        (b"version=1\nnode.id=1_0\n", "`node.id` is not a number: 1_0"),
        (b"broker.id=abc\ncluster.id=cluster\n", "`broker.id` is not a number: abc"),
        (b"version=1\ndirectory.id=short\n", ""),
        (b"version=1\n", NOBODYS),
        (b"cluster.id=\n", NOBODYS),
        (b"#\n#Thu Oct 09 08:53:20 UTC 2025\nnode.id=1\ndirectory.id=Hz_-APEL7nFRgOmi52JNrw\nver", NOBODYS),
        (b"version=1\nnode.id=1\n", "`cluster.id` is missing"),
        (b"node.id=1\ndirectory.id=Hz_-APEL7nFRgOmi52JNrw\nversion=1\nclust", "`cluster.id` is missing"),
        (b"node.id=1\nversion=1\ncluster.id=", "`cluster.id` is missing"),
        (b"version=1\ncluster.id=cluster\n", "`node.id` is missing"),
        (b"version=1\nbroker.id=1\ncluster.id=cluster\n", "`node.id` is missing"),
        (b"no properties at all\n", NOBODYS),
        (b"\x00" * 100, NOBODYS),
        (b"\xff\xfe\x80=\x81\n", NOBODYS),
    ],
)
def test_a_damaged_identity_is_refused(tmp_path: Path, text: bytes, what: str) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(text)
    with pytest.raises(KcliError) as caught:
        opened(tmp_path)
    assert caught.value.message.startswith(f"`{path}` is damaged: {what}")
    assert caught.value.hint == log_directory.RESTORE_HINT
    assert path.read_bytes() == text


def test_an_identity_of_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("version=7\nnode.id=1\ncluster.id=cluster\n")
    with pytest.raises(KcliError) as caught:
        opened(tmp_path)
    assert caught.value.message == f"`{path}` has an unknown version, 7"
    assert caught.value.hint == "a newer release wrote it, or it is damaged: versions 0 and 1 are known"


@pytest.mark.parametrize("replica", ["orders-0", "__cluster_metadata-0"])
def test_an_empty_identity_is_damaged_where_there_are_replicas(tmp_path: Path, replica: str) -> None:
    (tmp_path / replica).mkdir()
    (tmp_path / "meta.properties").touch()
    with pytest.raises(KcliError, match=NOBODYS):
        opened(tmp_path)
    assert (tmp_path / "meta.properties").read_bytes() == b""


def test_a_second_user_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    first = opened(tmp_path)
    for _ in range(2):
        with pytest.raises(KcliError, match=f"in use by process {os.getpid()}"):
            opened(tmp_path)
    first.release()
    opened(tmp_path).release()


HOLDER = """
import sys
from kcli.storage.dirs.log_directory import LogDirectory
directory = LogDirectory(sys.argv[1])
directory.open(cluster_id="cluster", node_id=1, now_ms=0, new_id=lambda: bytes(15) + b"x")
print("ready", flush=True)
sys.stdin.read()
"""


def test_another_process_keeps_us_out_until_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(KcliError, match=f"in use by process {holder.pid}"):
            opened(tmp_path)
        holder.kill()
        holder.wait()
    opened(tmp_path).release()


JAVA_LIKE_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_lock_as_java_takes_it_keeps_us_out(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", JAVA_LIKE_HOLDER, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(KcliError, match="in use by another process"):
            opened(tmp_path)
        holder.kill()


def test_our_lock_keeps_java_out(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    tried = subprocess.run(
        [sys.executable, "-c", JAVA_LIKE_HOLDER, str(tmp_path / ".lock")],
        input=b"",
        capture_output=True,
        check=False,
    )
    assert b"BlockingIOError" in tried.stderr
    directory.release()


def test_a_clean_stop_is_marked_as_apache_kafka_does(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    assert directory.clean_epoch() is None
    directory.write_clean_marker(11)
    marker = tmp_path / ".kafka_cleanshutdown"
    assert marker.read_bytes() == (APACHE / ".kafka_cleanshutdown").read_bytes()
    assert directory.clean_epoch() == 11
    directory.take_clean_marker()
    assert directory.was_clean
    assert not marker.exists()
    directory.take_clean_marker()
    assert not directory.was_clean
    directory.release()


def test_an_empty_or_unreadable_marker_is_a_clean_stop(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for content in (b"", b"\xff{"):
        (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
        assert directory.clean_epoch() == -1
        directory.take_clean_marker()
        assert directory.was_clean
    directory.release()


# --- a start that fails


def names_in(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, set()),
        ({".lock": ""}, {".lock"}),
        ({"orders-0": ""}, {"orders-0", ".lock"}),
        ({"meta.properties": "version=1\nnode.id=1\ncluster.id=cluster\n"}, {"meta.properties", ".lock"}),
    ],
)
def test_what_was_made_in_an_abandoned_directory_goes(
    before: dict[str, str], after: set[str], tmp_path: Path
) -> None:
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    directory = opened(tmp_path)
    assert names_in(tmp_path) == {".lock", "meta.properties", *before}
    directory.abandon()
    assert names_in(tmp_path) == after
    directory.abandon()
    opened(tmp_path).release()
    assert names_in(tmp_path) == {".lock", "meta.properties", *before}


def test_a_directory_that_came_in_place_of_an_abandoned_one_stays(tmp_path: Path) -> None:
    directory = opened(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    opened(tmp_path / "here").release()
    directory.abandon()
    assert names_in(tmp_path / "here") == {".lock", "meta.properties"}
    assert names_in(tmp_path / "there") == set()


def test_a_lock_on_a_file_that_its_owner_has_removed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, locked = opened(tmp_path), []

    def lock_late(descriptor: int) -> None:
        if not locked:
            first.abandon()  # Between the second one's opening of the file and its lock.
        locked.append(descriptor)
        lock_file(descriptor)

    lock_file = log_directory._lock_file
    monkeypatch.setattr(log_directory, "_lock_file", lock_late)
    second = opened(tmp_path)
    assert len(locked) == 2
    with pytest.raises(KcliError, match="in use by process"):
        opened(tmp_path)
    second.release()


def test_a_directory_that_its_maker_takes_back_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_late: list[str] = []

    def open_late(path: str) -> tuple[int, bool]:
        if not opened_late:
            (tmp_path / "node-2").rmdir()  # Another start has failed.
        opened_late.append(path)
        return open_or_make(path)

    open_or_make = log_directory._open_or_make
    monkeypatch.setattr(log_directory, "_open_or_make", open_late)
    opened(tmp_path / "node-2").release()
    assert len(opened_late) == 2


def test_a_directory_that_is_refused_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=cluster\n")
    before = (tmp_path / "meta.properties").read_bytes()
    with pytest.raises(KcliError, match="belongs to node 7"):
        opened(tmp_path)
    assert (tmp_path / "meta.properties").read_bytes() == before
