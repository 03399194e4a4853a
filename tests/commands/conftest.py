"""Commands against a cluster in memory, and transcripts: the command lines and their whole output."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.client import admin
from tests.commands.fake_cluster import FakeCluster
from tests.commands.fake_groups import FakeGroups
from tests.commands.fake_transactions import NOW_MS, FakeTransactions
from tests.conftest import Finished
from tests.support.kcli_broker import KcliBroker

Transcript = Callable[..., None]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster of two brokers without topics."""
    fake = FakeCluster()
    monkeypatch.setattr("kcli.commands.shared.session.open_client", fake.open_client)
    for name in vars(FakeCluster):
        if not name.startswith("_") and name not in ("add", "open_client"):
            monkeypatch.setattr(f"kcli.client.admin.{name}", getattr(fake, name))
    return fake


@pytest.fixture
def orders(cluster: FakeCluster) -> FakeCluster:
    """A cluster with a topic of three partitions, one of them out of sync and one without leader."""
    topic = cluster.add(
        "orders", [1, 2], [2, 1], [1, 2], retention_ms="60000", cleanup_policy="compact,delete"
    )
    topic.isr = {1: [2], 2: []}
    topic.leaderless = {2}
    topic.offsets = {0: (0, 10), 1: (5, 25), 2: (0, 3)}
    cluster.add("clicks", [1])
    cluster.add("__consumer_offsets", [1])
    return cluster


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """A cluster without topics and consumer groups."""
    fake = FakeGroups()
    monkeypatch.setattr("kcli.commands.shared.session.open_client", fake.open_client)
    for name in {name for cls in (FakeCluster, FakeGroups) for name in vars(cls)}:
        if not name.startswith("_") and hasattr(admin, name):
            monkeypatch.setattr(f"kcli.client.admin.{name}", getattr(fake, name))
    return fake


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> FakeTransactions:
    """A cluster with transactional ids, at a time that stands still."""
    fake = FakeTransactions()
    monkeypatch.setattr("kcli.commands.shared.session.open_client", fake.open_client)
    monkeypatch.setattr("kcli.commands.transactions.app.now_ms", lambda: NOW_MS)
    for name in {name for cls in (FakeCluster, FakeTransactions) for name in vars(cls)}:
        if not name.startswith("_") and hasattr(admin, name):
            monkeypatch.setattr(f"kcli.client.admin.{name}", getattr(fake, name))
    return fake


@pytest.fixture
def transcript(kcli: Callable[..., Finished], golden: Callable[[str, str], None]) -> Transcript:
    """Run command lines in order and compare their output with a golden file."""

    def compare(name: str, *lines: str) -> None:
        shown = []
        for line in lines:
            finished = kcli(*shlex.split(line))
            errors = "".join(f"! {error}\n" for error in finished.err.splitlines())
            exit_code = f"[exit {finished.exit_code}]\n" if finished.exit_code else ""
            shown.append(f"$ kcli {line}\n{finished.out}{errors}{exit_code}")
        golden(f"cli/{name}.txt", "\n".join(shown))

    return compare


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    """A running broker in a process of its own, one for all tests: each makes its own topics.

    It writes no high watermarks while it runs: who reads its directory would read up to the last ones. And it
    keeps records that are dated years back.
    """
    settings = {"replica.high.watermark.checkpoint.interval.ms": "3600000", "log.retention.ms": "-1"}
    running = KcliBroker(tmp_path_factory.mktemp("broker"), settings=settings)
    running.start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def live(
    broker: KcliBroker, kcli: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Finished]:
    """Run kcli against the running broker."""
    monkeypatch.setenv("KCLI_BOOTSTRAP_SERVER", broker.bootstrap)
    return kcli


@pytest.fixture
def new_topic(live: Callable[..., Finished], request: pytest.FixtureRequest) -> Callable[[int], str]:
    """Make a topic of some partitions, named after the test, on the broker that commands use by default."""

    def make(partitions: int) -> str:
        name = "".join(character if character.isalnum() else "-" for character in request.node.name)
        assert live("topics", "create", name, "--partitions", str(partitions)).exit_code == 0
        return name

    return make


@pytest.fixture
def hanging_topic(broker: KcliBroker, live: Callable[..., Finished], new_topic: Callable[[int], str]) -> str:
    """A topic of one partition: a record, one of a transaction that hangs, and one more."""
    topic = new_topic(1)
    fault = ("broker", "fault", "add", "hang-transactions", "--topic", topic, "--next", "1")
    assert live("produce", topic, input=b"before\n").exit_code == 0
    assert live(*fault, "--data-dir", str(broker.data)).exit_code == 0
    assert live("produce", topic, "--transactional-id", f"{topic}-hangs", input=b"hangs\n").exit_code == 0
    assert live("produce", topic, input=b"behind\n").exit_code == 0
    return topic


@pytest.fixture
def no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make names ending with `.invalid` unknown at once: name servers may be slow, or resolve any name."""
    ask = socket.getaddrinfo

    def getaddrinfo(host: str | bytes | None, *arguments: Any, **more: Any) -> object:
        name = host.decode() if isinstance(host, bytes) else host or ""
        if name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
