"""What dump-log repairs, verify-index finds clean and Apache Kafka's own tool and broker accept."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kcli.cli import main
from tests.support.apache_kafka import ApacheKafka
from tests.support.harms import entries_of_log, entry_harms, field_harms
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, read_partition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.apache_kafka import KafkaTools
    from tests.support.forensic_corpus import Corpus
    from tests.support.harms import Harm

pytestmark = pytest.mark.interop

SEGMENTS = {
    "transactions": ("apache/transactions-0", 15),
    "codecs": ("apache/codecs-0", 0),
    "every format": ("old-1.1/small-0", 0),
}
CASES = 25
TOPICS = 8
VERBS = ("flip the last bit of", "cut inside", "insert before")
FIELDS = ("offset", "size", "magic", "crc", "content", "all")


class Case(NamedTuple):
    """A harm, the damaged partition, and where its repaired copy is."""

    harm: Harm
    damaged: Path
    repaired: Path


def harms(data: bytes, most: int) -> list[Harm]:
    """Some of what can happen, everywhere in the file."""
    entries = entries_of_log(data)
    fields = [harm for harm in field_harms(data, entries) if harm.verb in VERBS and harm.field in FIELDS]
    found = [*entry_harms(data, entries), *fields]
    return found[:: -(-len(found) // most)]


def repair(corpus: Corpus, directory: Path, name: str, most: int, *options: str) -> list[Case]:
    """Damage copies of a partition and have them repaired."""
    source, base = SEGMENTS[name]
    original = corpus.directory / source
    data = (original / f"{base:020}.log").read_bytes()
    found = []
    for number, harm in enumerate(harms(data, most)):
        damaged = directory / f"damaged-{number}" / original.name
        shutil.copytree(original, damaged)
        (damaged / f"{base:020}.log").write_bytes(harm.data)
        out = directory / f"repaired-{number}"
        exit_code = main(["dump-log", str(damaged), "--repair", str(out), *options, "-o", "json"])
        assert exit_code in (0, 3), str(harm)
        found.append(Case(harm, damaged, out / original.name))
    return found


def dumped(path: Path, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What there is in a partition."""
    capfd.readouterr()
    main(["dump-log", "--print-data-log", "--continue", "--kind", "log", "-o", "json", str(path)])
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def problems(path: Path, capfd: pytest.CaptureFixture[str]) -> set[str]:
    """What verify-index finds: what is lost at the end of a segment is lost, and stays a gap."""
    capfd.readouterr()
    main(["verify-index", "--deep", "-o", "json", str(path)])
    objects = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    return {each["kind"] for each in objects if each.get("severity") in ("error", "warning")}


def checksums(path: Path, capfd: pytest.CaptureFixture[str]) -> list[tuple[int, int]]:
    """Last offset and checksum of the batches of a partition that nothing is wrong with."""
    found: list[tuple[int, int]] = []
    last = -1
    for each in dumped(path, capfd):
        if each["type"] == "file":
            last = -1
        elif each["type"] == "batch" and each["is_valid"]:
            found.append((each["last_offset"], each["crc"]))
            last = each["position"]
        elif each["type"] == "damage" and each["position"] == last:
            # It is about the batch that came just before.
            del found[-1]
    return found


@pytest.mark.parametrize("mode", ["cut", "carve"])
@pytest.mark.parametrize("name", ["transactions", "every format"])
def test_repaired_copies_are_clean_to_both_tools(
    corpus: Corpus,
    kafka_tool: KafkaTools,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    mode: str,
) -> None:
    cases = repair(corpus, tmp_path, name, CASES, *(["--continue"] if mode == "carve" else []))
    files = []
    for harm, damaged, repaired in cases:
        assert problems(repaired, capfd) <= {"segment_gap"}, str(harm)
        kept, there = checksums(repaired, capfd), checksums(damaged, capfd)
        following = iter(there)
        assert all(each in following for each in kept), str(harm)
        if mode == "carve" and harm.verb not in ("swap", "duplicate") and harm.field != "offset":
            assert kept == there, str(harm)
        files += sorted(
            path for path in repaired.iterdir() if path.suffix in (".log", ".index", ".timeindex")
        )
    for options in ((), ("--deep-iteration",), ("--verify-index-only",)):
        result = kafka_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
        assert result.code == 0, result.errors
        assert "isvalid: false" not in result.output
        assert "invalid bytes" not in result.output
        # Gaps are what is lost.
        gaps = r"(Non-consecutive offsets in .*\n(  -?\d+ is followed by \d+\n)+)*"
        assert re.fullmatch(gaps, result.errors), result.errors


def test_apache_kafka_starts_on_repaired_partitions_and_serves_them(
    corpus: Corpus, kafka_tool: KafkaTools, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cases = repair(corpus, tmp_path / "cases", "codecs", TOPICS, "--continue")
    chosen = {f"repaired-{number}": case for number, case in enumerate(cases)}
    (tmp_path / "broker").mkdir()
    broker = KcliBroker(tmp_path / "broker").start()
    try:
        for topic in chosen:
            create_topic(broker.bootstrap, topic)
        assert broker.stop() == 0
    finally:
        broker.close()
    for topic, case in chosen.items():
        partition = broker.node_directory / f"{topic}-0"
        metadata = (partition / "partition.metadata").read_bytes()
        shutil.rmtree(partition)
        shutil.copytree(case.repaired, partition)
        (partition / "partition.metadata").write_bytes(metadata)
    (tmp_path / "apache").mkdir()
    apache = ApacheKafka(tmp_path / "apache", kafka_tool, data=broker.node_directory)
    apache.start()
    try:
        for topic, case in chosen.items():
            objects = dumped(case.repaired, capfd)
            wanted = [each["offset"] for each in objects if each["type"] == "record"]
            read = [record.offset for record in read_partition(apache.bootstrap, topic, 0)]
            assert read == wanted, str(case.harm)
            assert len(wanted) > (0 if case.harm.verb.startswith("cut") else 300), str(case.harm)
    finally:
        apache.stop()
