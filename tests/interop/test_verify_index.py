"""`kcli verify-index` beside Apache Kafka's dump tool: what both check, they find alike."""

from __future__ import annotations

import shutil
from struct import Struct
from typing import TYPE_CHECKING

import pytest

from tests.support.producing import create_topic, produce
from tests.support.records import Shape, generate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import KafkaTools
    from tests.support.forensic_corpus import Corpus
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

MODES: list[tuple[str, ...]] = [(), ("--deep",), ("--verify-index-only",), ("--index-sanity-check",)]
OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: " ".join(mode) or "all")
@pytest.mark.parametrize("which", ["apache", "running"])
def test_what_apache_kafka_wrote_is_clean(
    corpus: Corpus, kcli: Callable[..., Finished], which: str, mode: tuple[str, ...]
) -> None:
    finished = kcli("verify-index", *mode, str(corpus.directory / which))
    assert finished.exit_code == 0, finished.out
    assert finished.err == ""


def test_what_kcli_wrote_is_clean_for_both_while_it_runs_and_after(
    new_kcli_broker: Callable[..., KcliBroker],
    kcli: Callable[..., Finished],
    kafka_tool: KafkaTools,
) -> None:
    broker = new_kcli_broker()
    broker.start()
    create_topic(broker.bootstrap, "orders", 2, {"segment.bytes": "1048576", "index.interval.bytes": "500"})
    for seed in range(5):
        produce(broker.bootstrap, "orders", generate(seed, seed % 2, 100, Shape()))
        finished = kcli("verify-index", "--deep", str(broker.data))
        assert finished.exit_code == 0, finished.out
    assert broker.stop() == 0
    finished = kcli("verify-index", "--deep", str(broker.data))
    assert finished.exit_code == 0, finished.out
    files = sorted(path for path in broker.data.rglob("*index") if path.suffix in (".index", ".timeindex"))
    theirs = kafka_tool("kafka-dump-log", "--verify-index-only", "--files", ",".join(map(str, files)))
    assert theirs.errors == ""


@pytest.fixture
def partition(corpus: Corpus, tmp_path: Path) -> Path:
    """A copy of a partition, to be damaged."""
    return shutil.copytree(corpus.apache / "codecs-0", tmp_path / "codecs-0")


def test_the_sanity_check_says_the_same(
    partition: Path, kcli: Callable[..., Finished], kafka_tool: KafkaTools
) -> None:
    for path in sorted(partition.iterdir()):
        if path.suffix in (".index", ".timeindex"):
            theirs = kafka_tool("kafka-dump-log", "--index-sanity-check", "--files", path)
            ours = kcli("verify-index", "--index-sanity-check", "-o", "text", str(path))
            assert theirs.lines[1:] == ours.out.splitlines()[:1], path


def test_mismatches_of_the_offset_index_are_the_same(
    partition: Path, kcli: Callable[..., Finished], kafka_tool: KafkaTools
) -> None:
    path = partition / f"{0:020d}.index"
    data = bytearray(path.read_bytes())
    assert len(data) > 5 * OFFSET_ENTRY.size
    for slot in (1, 3):
        key, position = OFFSET_ENTRY.unpack_from(data, slot * OFFSET_ENTRY.size)
        OFFSET_ENTRY.pack_into(data, slot * OFFSET_ENTRY.size, key | 1 << 20, position)
    path.write_bytes(data)
    compare(path, 3, kcli, kafka_tool)


def test_mismatches_of_the_time_index_are_the_same(
    partition: Path, kcli: Callable[..., Finished], kafka_tool: KafkaTools
) -> None:
    path = partition / f"{0:020d}.timeindex"
    sound = path.read_bytes()
    assert len(sound) > 3 * TIME_ENTRY.size
    for slot, difference in ((1, (1, 0)), (2, (0, 1 << 20))):
        data = bytearray(sound)
        timestamp, offset = TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY.size)
        TIME_ENTRY.pack_into(data, slot * TIME_ENTRY.size, timestamp + difference[0], offset + difference[1])
        path.write_bytes(data)
        compare(path, 2, kcli, kafka_tool)


def compare(path: Path, least: int, kcli: Callable[..., Finished], kafka_tool: KafkaTools) -> None:
    """Both tools must find the same, as Apache's says it; the order of pairs is its own."""
    theirs = kafka_tool("kafka-dump-log", "--verify-index-only", "--files", path)
    ours = kcli("verify-index", "--verify-index-only", "-o", "text", str(path))
    assert ours.exit_code == 3
    lines = ours.out.splitlines()[:-1]
    assert len(lines) >= least
    assert sorted(lines) == sorted(theirs.errors.splitlines())
