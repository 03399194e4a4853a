"""The forensic corpus: log directories written by programs that are not kcli, small, and cached.

    apache/       an Apache Kafka broker that was stopped: codecs, append-time, transactions, compacted,
                  __consumer_offsets, __transaction_state, __cluster_metadata
    running/      copies of some of its partitions while it ran: indexes preallocated, no last snapshots
    old-0.10/     record formats 0 and 1, by the record classes of Apache Kafka 0.10.2
    old-1.1/      formats 0, 1 and 2 mixed, by those of Apache Kafka 1.1; `small-0` has no gaps

It is made by the first test that asks for it, and kept in the cache of the interop tests under a name that
changes with these sources. Nothing may be written there: tests that do damage work on copies.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import forensic_topics
from tests.support.apache_kafka import ApacheKafka, java_command
from tests.support.forensic_topics import (
    delete_records,
    write_codecs,
    write_compacted,
    write_groups,
    write_more,
    write_transactional_offsets,
    write_transactions,
)
from tests.support.toolchain import (
    INTEROP,
    cache_directory,
    fingerprint,
    java_classes,
    java_libraries,
    made,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.support.apache_kafka import KafkaTools

SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "0",
    "log.index.size.max.bytes": "4096",
    "offsets.topic.segment.bytes": "1048576",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
SMALL_SETS = (
    "0:none:CreateTime:0:2:1",
    "1:none:CreateTime:2:2:1",
    "2:none:CreateTime:4:3:1",
    "0:gzip:CreateTime:7:3:1",
    "1:snappy:LogAppendTime:10:2:1",
    "2:lz4:LogAppendTime:12:4:1",
    "1:lz4:CreateTime:16:1:1",
)
"""Every format in one file, without gaps."""

OLD_TIMEOUT_SECONDS = 180
LOG_NAME = "0" * 20 + ".log"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the corpus is."""

    directory: Path

    @property
    def apache(self) -> Path:
        """The log directory of the broker that was stopped."""
        return self.directory / "apache"

    def partitions(self) -> list[Path]:
        """Every directory that holds segments."""
        return sorted({path.parent for path in self.directory.rglob("*.log")})

    def files(self, *suffixes: str) -> list[Path]:
        """Every file with one of the suffixes, by path."""
        return sorted(path for path in self.directory.rglob("*") if path.suffix in suffixes)

    def old_logs(self) -> list[Path]:
        """The segments that old record classes wrote."""
        return [path for path in self.files(".log") if path.parent.parent.name.startswith("old-")]


def forensic_corpus(tools: KafkaTools) -> Corpus:
    """The corpus, made now if it is not in the cache."""
    sources = [Path(__file__), Path(forensic_topics.__file__), INTEROP / "java" / "OldRecords.java"]
    sources += (INTEROP / "java").rglob("pom.xml")

    def make(staging: Path) -> None:
        staging.mkdir()
        _write_with_apache(staging, tools)
        _write_with_old_classes(staging)

    return Corpus(made(cache_directory() / f"forensic-corpus-{fingerprint(sources)}", make))


def _write_with_apache(directory: Path, tools: KafkaTools) -> None:
    work = directory / "work"
    work.mkdir()
    broker = ApacheKafka(work, tools, settings=SETTINGS)
    broker.start()
    try:
        write_codecs(broker.bootstrap, "codecs")
        write_codecs(broker.bootstrap, "append-time", message_timestamp_type="LogAppendTime")
        delete_records(broker.bootstrap, "append-time", 105)
        write_compacted(broker.bootstrap, "compacted")
        write_groups(broker.bootstrap, "codecs")
        write_transactional_offsets(broker.bootstrap, "codecs", "transactional")
        broker.stop()
        broker.start()
        # In the next leader epoch.
        write_more(broker.bootstrap, "codecs")
        open_transaction = write_transactions(broker.bootstrap, "transactions")
        eventually(lambda: _is_cleaned(broker.data), "the cleaner has thinned out the compacted topic")
        eventually(lambda: len(_metadata_snapshots(broker.data)) > 1, "there are metadata snapshots")
        for name in ("codecs-0", "transactions-0"):
            shutil.copytree(broker.data / name, directory / "running" / name)
    finally:
        broker.stop()
    del open_transaction
    broker.data.rename(directory / "apache")
    shutil.rmtree(work)


def _is_cleaned(data: Path) -> bool:
    checkpoint = data / "cleaner-offset-checkpoint"
    cleaned = [line.split() for line in checkpoint.read_text().splitlines()] if checkpoint.exists() else []
    active = max(int(path.stem) for path in (data / "compacted-0").glob("*.log"))
    return ["compacted", "0", str(active)] in cleaned


def _metadata_snapshots(data: Path) -> list[Path]:
    return list((data / "__cluster_metadata-0").glob("*-*.checkpoint"))


def _write_with_old_classes(directory: Path) -> None:
    for version, magics in (("0.10", (0, 1)), ("1.1", (0, 1, 2))):
        for magic in magics:
            sets = list(_sets([magic]))
            _old_records(version, directory / f"old-{version}" / f"magic-{magic}-0", sets)
        _old_records(version, directory / f"old-{version}" / "mixed-0", list(_sets(magics)))
    _old_records("1.1", directory / "old-1.1" / "small-0", SMALL_SETS)


def _sets(magics: Sequence[int]) -> Iterator[str]:
    """Sets of every codec and timestamp type, with and without gaps, one after another."""
    offset = 0
    for codec in OLD_CODECS:
        for magic in magics:
            types = ("CreateTime", "LogAppendTime") if magic else ("CreateTime",)
            for timestamps in types:
                for count, step in ((1, 1), (7, 1), (4, 3)):
                    yield f"{magic}:{codec}:{timestamps}:{offset}:{count}:{step}"
                    offset += count * step


def _old_records(version: str, partition: Path, sets: Iterable[str]) -> None:
    partition.mkdir(parents=True)
    classes = java_classes("clients-0.10", "OldRecords")
    assert java_libraries().is_dir()
    command = java_command(f"clients-{version}", "OldRecords", "-Xmx64m", classes=classes)
    subprocess.run([*command, partition / LOG_NAME, *sets], check=True, timeout=OLD_TIMEOUT_SECONDS)
