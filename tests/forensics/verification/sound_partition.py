"""A partition that nothing is wrong with, and what verification finds in one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kcli.forensics.verification.findings import Finding, Kind, Severity, VerificationOptions
from kcli.forensics.verification.log_directory_checks import PartitionOffsets
from kcli.forensics.verification.partition_verifier import verify_partition
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness

ALL = VerificationOptions()
DEEP = VerificationOptions(deep=True)
SANITY = VerificationOptions(sanity_only=True)
OFFSET_FIELDS = (("offset", 0, 4), ("position", 4, 4))
TIME_FIELDS = (("timestamp", 0, 8), ("offset", 8, 4))
TRANSACTION_FIELDS = (
    ("version", 0, 2),
    ("producer id", 2, 8),
    ("first offset", 10, 8),
    ("last offset", 18, 8),
    ("last stable offset", 26, 8),
)
TABLE_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
SNAPSHOT_FIELDS = (("version", 0, 2), ("crc", 2, 4), ("count", 6, 4))


def write_partition(root: Path) -> LogHarness:
    """Three segments of every codec, with transactions that ended either way and one that is open."""
    harness = LogHarness(root, replace(SMALL, segment_bytes=3000, index_interval_bytes=150))
    sequences = {1: 0, 2: 0, 3: 0}

    def produce(producer: int, codec: Codec, at: int) -> None:
        harness.append(
            *(b"%d-" % at + b"v" * 60 for _ in range(4)),
            timestamp=NOW_MS + at * 10,
            step_ms=1,
            codec=codec,
            producer=(producer, 0, sequences[producer]),
            is_transactional=True,
            leader_epoch=at // 12,
        )
        sequences[producer] += 4

    for at in range(51):
        produce(1 + at % 2, list(Codec)[at % 5], at)
        if at % 6 == 5:
            for producer, kind in ((1, ControlRecordType.ABORT), (2, ControlRecordType.COMMIT)):
                mark(harness, producer, kind, at // 12)
    produce(3, Codec.NONE, 60)
    harness.stop()
    return harness


def mark(harness: LogHarness, producer: int, kind: ControlRecordType, leader_epoch: int) -> None:
    """End a transaction."""
    batch = end_txn_batch(EndTxnMarker(kind, 0), timestamp=NOW_MS, producer_id=producer, producer_epoch=0)
    harness.append_batch(batch, leader_epoch=leader_epoch, origin=AppendOrigin.COORDINATOR)


def found(directory: Path, options: VerificationOptions = ALL, **offsets: int) -> list[Finding]:
    report = verify_partition(str(directory), options, offsets=PartitionOffsets(str(directory), **offsets))
    assert report.failures == []
    return report.findings


def problems(directory: Path, options: VerificationOptions = ALL, **offsets: int) -> list[Finding]:
    return [each for each in found(directory, options, **offsets) if each.severity is not Severity.INFO]


def kinds(findings: Iterable[Finding]) -> set[Kind]:
    return {each.kind for each in findings}


def segment_files(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)
