"""Replicas to dump, and what a dump of them holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.topics import TopicPartition
from kcli.storage.checkpoints import write_epochs, write_offsets, write_partition_metadata
from tests.conftest import Finished
from tests.support.log_files import batch_of, segment

Kcli = Callable[..., Finished]

KEYED: list[tuple[bytes | None, bytes | None]] = [
    (b"a", b'{"n": 1}'),
    (b"b", b"plain"),
    (b"a", None),
    (None, b"\x00\x01"),
]


def orders(directory: Path) -> Path:
    """The replica `orders-0`: two segments, a transaction that is committed and one that is open."""
    replica = directory / "orders-0"
    producer = {"producer_id": 7, "producer_epoch": 1, "is_transactional": True}
    marker = EndTxnMarker(ControlRecordType.COMMIT, 3)
    commit = end_txn_batch(
        marker, timestamp=1_700_000_000_500, producer_id=7, producer_epoch=1, base_offset=4, leader_epoch=3
    )
    first = [batch_of(KEYED, 0, base_sequence=0, **producer), bytes(commit)]
    segment(replica, first)
    second = [
        batch_of(KEYED, 5, codec=Codec.GZIP),
        batch_of(KEYED[:2], 12, base_sequence=4, **producer),
    ]
    segment(replica, second, 5)
    segment(replica, [bytes(4), (len(first[0])).to_bytes(4, "big")][:0], 5, ".index")
    write_epochs(str(replica / "leader-epoch-checkpoint"), [(3, 0)])
    write_partition_metadata(str(replica), bytes(range(16)))
    return replica


def log_directory(directory: Path) -> Path:
    """A log directory with a few replicas, one of them deleted, and the files beside them."""
    data = directory / "data"
    data.mkdir()
    orders(data)
    segment(data / "orders-1", [batch_of(KEYED)])
    segment(data / "other-0", [batch_of(KEYED)])
    segment(data / f"gone-0.{'0' * 32}-delete", [batch_of(KEYED)])
    write_offsets(str(data / "recovery-point-offset-checkpoint"), {TopicPartition("orders", 0): 14})
    (data / "meta.properties").write_text(
        "#\nversion=1\nnode.id=3\ncluster.id=10PS7KEtSkWEtrRRtY6qKA\ndirectory.id=Hz_-APEL7nFRgOmi52JNrw\n"
    )
    (data / "notes.txt").write_text("not of Kafka")
    return data


def objects(finished: Finished) -> list[dict[str, Any]]:
    """The objects of a JSON dump."""
    return [json.loads(line) for line in finished.out.splitlines()]


def types(finished: Finished) -> list[str]:
    """The types of the objects of a JSON dump."""
    return [each["type"] for each in objects(finished)]


def records(finished: Finished) -> list[int]:
    """The offsets of the records in a JSON dump."""
    return [each["offset"] for each in objects(finished) if each["type"] == "record"]
