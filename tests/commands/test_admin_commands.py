"""Other admin commands: their whole output in each format, errors and exit codes.

Lines of stderr are marked with `!` in the goldens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import FakeCluster


def test_get_offsets(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "get_offsets",
        "get-offsets orders",
        "get-offsets orders --time earliest --partitions 0,1 -o table",
        "get-offsets --topic-partitions orders:0-2,clicks -o json",
        "get-offsets --topic-partitions orders:1",
        "get-offsets --topic-partitions :-1",
        "get-offsets orders --partitions 1 --time 1700000000000",
        "get-offsets nothing",
        "get-offsets --topic-partitions nothing:0",
        "get-offsets nothing.*",
        "get-offsets orders --partitions 7",
        "get-offsets clicks,nothing",
        "get-offsets clicks,nothing,missing -o json",
        "get-offsets --topic-partitions nothing:0,clicks:0",
        "get-offsets clicks,nothing.*",
        "get-offsets clicks,__consumer_offsets --exclude-internal-topics",
        "get-offsets nothing,missing",
        "get-offsets clicks,nothing --partitions 7",
        "get-offsets orders --time soon",
        "get-offsets orders --time -9",
        "get-offsets orders --time 9223372036854775808",
        "get-offsets orders --time earliest-pending-upload",
        "get-offsets orders --time -6",
        "get-offsets orders --topic-partitions orders",
        "get-offsets --topic-partitions a:b",
        "get-offsets orders --partitions one",
    )


def test_delete_records(
    orders: FakeCluster, transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = '{"partitions": [{"topic": "orders", "partition": 2, "offset": -1}], "version": 1}'
    Path("good.json").write_text(good)
    Path("version.json").write_text('{"partitions": [], "version": 2}')
    Path("entry.json").write_text('{"partitions": [{"topic": "orders"}]}')
    Path("list.json").write_text("[]")
    Path("broken.json").write_text("{")
    orders.add("prices", [1], cleanup_policy="compact").offsets = {0: (0, 10)}
    transcript(
        "delete_records",
        "delete-records orders:0:4 orders:1:25",
        "delete-records --offset-json-file good.json -o table",
        "delete-records orders:0:5 orders:9:0 -o json",
        "delete-records orders:0:99",
        "delete-records prices:0:5",
        "delete-records orders:0:5 orders:0:6",
        "delete-records orders:0",
        "delete-records orders:0:-2",
        "delete-records orders:0:9223372036854775808",
        "delete-records --offset-json-file version.json",
        "delete-records --offset-json-file entry.json",
        "delete-records --offset-json-file list.json",
        "delete-records --offset-json-file broken.json",
        "delete-records --offset-json-file missing.json",
        "delete-records",
    )
    assert orders.topics["orders"].offsets == {0: (5, 10), 1: (25, 25), 2: (3, 3)}


def test_log_dirs(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "log_dirs",
        "log-dirs describe --broker-list 1 --topic-list orders",
        "log-dirs describe -o table",
        "log-dirs describe --topic-list clicks -o json",
        "log-dirs describe --broker-list 1,7",
        "log-dirs describe --broker-list one",
    )


def test_log_dirs_move(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "log_dirs_move",
        "log-dirs move orders:0 --broker 1 --to /d3",
        "log-dirs move orders:0 orders:1 --broker 1 --to /d3 -o table",
        "log-dirs move orders:0 --broker 1 --to /d1 --wait -o json",
        "log-dirs move orders:0 --broker 1 --to /d3 --wait",
        "log-dirs move orders:0 --broker 1 --to /nowhere",
        "log-dirs move clicks:0 --broker 2 --to /d1",
        "log-dirs move orders:0 --broker 7 --to /d1",
        "log-dirs move orders:0 --broker 3 --to /d1",
        "log-dirs move orders:0 --broker 1 --to d1",
        "log-dirs move orders --broker 1 --to /d1",
        "log-dirs move orders:0 --broker 1",
        "log-dirs move orders:0 --to /d1",
        "log-dirs move --broker 1 --to /d1",
    )


def test_cluster(cluster: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "cluster",
        "cluster id",
        "cluster id -o json",
        "cluster nodes",
        "cluster nodes --include-fenced-brokers -o table",
        "cluster nodes -o json",
        "cluster unregister 3",
        "cluster unregister 3 -o json",
        "cluster unregister --id 3",
        "cluster unregister 3 --id 3",
        "cluster unregister 2",
        "cluster unregister 2 --force",
        "cluster unregister 9",
        "cluster unregister three",
        "cluster unregister",
        "cluster api-versions",
        "cluster api-versions -o table",
    )
