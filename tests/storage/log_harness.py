"""A log on disk, driven by verbs: append, roll, cut, corrupt, crash, reopen.

`crash` ends the process without a close: written bytes stay, memory is lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, LOG_OVERHEAD, update_crc
from kcli.protocol.records.record import Record
from kcli.protocol.records.varints import encode_varint
from kcli.protocol.topics import TopicPartition
from kcli.storage.log.local_log import DeletionPlan
from kcli.storage.log.log_appender import LogAppendInfo
from kcli.storage.log.log_config import LogConfig, LogSettings
from kcli.storage.log.log_loader import Checkpointed, load_log
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.unified_log import UnifiedLog
from kcli.storage.producers.producer_state import AppendOrigin

NOW_MS = 1_760_000_000_000
TOPIC_PARTITION = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, file_delete_delay_ms=0)
_HEADER_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


def batch_of(
    *values: bytes | None,
    keys: tuple[bytes | None, ...] | None = None,
    timestamp: int = NOW_MS,
    step_ms: int = 0,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
) -> bytearray:
    """Return a producer's batch; `producer` is id, epoch and first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    builder = RecordBatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    for number, value in enumerate(values):
        builder.append(timestamp + number * step_ms, keys[number] if keys else b"key", value)
    return builder.build()


def with_fields(batch: bytearray, **fields: int) -> bytearray:
    """Return a batch with changed header fields, and a matching checksum unless it is one of them."""
    values = dict(zip(_HEADER_FIELDS, HEADER.unpack_from(batch), strict=True))
    HEADER.pack_into(batch, 0, *(values | fields).values())
    if "crc" not in fields and "length" not in fields:
        update_crc(batch, 0)
    return batch


def with_more(batch: bytearray, data: bytes) -> bytearray:
    """Return a batch with more bytes at its end, and length and checksum to match."""
    return with_fields(with_fields(batch + data, length=len(batch) + len(data) - LOG_OVERHEAD), magic=2)


def with_a_long_value(count: int, codec: Codec = Codec.NONE) -> bytearray:
    """Return a batch in which the value of the middle record claims seven bytes of the next one."""
    batch = batch_of(*[b"x" * 100] * count)
    at = HEADER_SIZE
    for _ in range(count // 2 + 1):
        at = batch.index(encode_varint(100) + b"x" * 100, at + 1)
    batch[at : at + 2] = encode_varint(107)
    if codec:
        batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        return with_fields(with_fields(batch, length=len(batch) - LOG_OVERHEAD), attributes=codec)
    return with_fields(batch)


class LogHarness:
    """The log `orders-0` under a directory, and its reports."""

    def __init__(self, root: Path, config: LogConfig = SMALL) -> None:
        self.directory = root / "orders-0"
        self.directory.mkdir(exist_ok=True)
        self.config = config
        self.reports: list[str] = []
        self.failures: list[str] = []
        self.recovery_point = 0
        self.log_start_offset = 0
        self.log = self._load(is_clean=True)

    def _load(self, *, is_clean: bool) -> UnifiedLog:
        log = load_log(
            str(self.directory),
            TOPIC_PARTITION,
            topic_id=None,
            settings=LogSettings(
                config=self.config,
                report=self.reports.append,
                on_failure=lambda _, message: self.failures.append(message),
            ),
            now_ms=NOW_MS,
            checkpointed=Checkpointed(is_clean, self.recovery_point, self.log_start_offset),
        )
        log.advance_high_watermark(log.log_end_offset)
        return log

    # --- changes

    def append(self, *values: bytes | None, leader_epoch: int = 0, **arguments: object) -> LogAppendInfo:
        """Append one batch as leader and make it visible."""
        return self.append_batch(batch_of(*values, **arguments), leader_epoch=leader_epoch)  # type: ignore[arg-type]

    def append_batch(
        self,
        batch: bytearray,
        *,
        leader_epoch: int = 0,
        now_ms: int = NOW_MS,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> LogAppendInfo:
        """Append bytes as leader, in a memoryview as a request has them, and make them visible."""
        info = self.log.append_as_leader(
            memoryview(batch), leader_epoch=leader_epoch, now_ms=now_ms, origin=origin
        )
        self.log.advance_high_watermark(self.log.log_end_offset)
        return info

    def fill(self, count: int, size: int = 50) -> None:
        """Append `count` batches of one record each, its value beginning with its offset."""
        for _ in range(count):
            self.append(b"%d-" % self.log.log_end_offset + b"x" * size)

    def checkpoint(self) -> None:
        """Keep recovery point and log start for the next start."""
        self.recovery_point = self.log.recovery_point
        self.log_start_offset = self.log.log_start_offset

    def reopen(self) -> None:
        """Stop cleanly and start again."""
        self.log.close(now_ms=NOW_MS)
        self.checkpoint()
        self.log = self._load(is_clean=True)

    def crash(self) -> None:
        """Kill the process, keep the checkpoints of the last `checkpoint`, and start again."""
        self.log.close_handlers()
        self.log = self._load(is_clean=False)

    def start(self, *, is_clean: bool = True) -> None:
        """Start again after the files of a stopped log were changed."""
        self.log = self._load(is_clean=is_clean)

    def stop(self) -> None:
        """Stop cleanly."""
        self.log.close(now_ms=NOW_MS)
        self.checkpoint()

    # --- files

    def delete_files(self, now_ms: int = NOW_MS) -> int:
        """Delete the due files; return their number."""
        plan = DeletionPlan(self.log.take_due_deletions(now_ms))
        plan.run()
        assert plan.failures == []
        return len(plan.paths)

    def path(self, base_offset: int, suffix: str = ".log") -> Path:
        """Return the path of a file of a segment."""
        return self.directory / f"{base_offset:020d}{suffix}"

    def corrupt(self, base_offset: int, position: int, suffix: str = ".log") -> None:
        """Flip every bit of one byte; a negative position counts from the end."""
        data = bytearray(self.path(base_offset, suffix).read_bytes())
        data[position] ^= 0xFF
        self.path(base_offset, suffix).write_bytes(data)

    def cut(self, base_offset: int, count: int, suffix: str = ".log") -> None:
        """Cut bytes off the end of a file."""
        path = self.path(base_offset, suffix)
        os.truncate(path, path.stat().st_size - count)

    def names(self, suffix: str = "") -> list[str]:
        """Return the names of the files in the directory."""
        return sorted(name for name in os.listdir(self.directory) if name.endswith(suffix))

    # --- what is there

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        return self.log.segments.base_offsets

    def batches(self, offset: int | None = None, max_bytes: int = 1000) -> list[RecordBatch]:
        """Read from an offset (default: the log start) to the end, slice by slice."""
        offset = self.log.log_start_offset if offset is None else offset
        batches: list[RecordBatch] = []
        while offset < self.log.log_end_offset:
            read = self.log.read(offset, max_bytes, isolation=Isolation.LOG_END)
            assert read.file_slice is not None
            for batch in iter_batches(read.file_slice.read()):
                assert isinstance(batch, RecordBatch)
                assert batch.is_valid_crc()
                if batch.next_offset > offset:
                    batches.append(batch)
                    offset = batch.next_offset
        return batches

    def records(self, offset: int | None = None) -> list[Record]:
        """Read all records from an offset on."""
        start = self.log.log_start_offset if offset is None else offset
        return [
            record for batch in self.batches(offset) for record in batch.records() if record.offset >= start
        ]

    def values(self, offset: int | None = None) -> list[bytes | None]:
        """Read the values of all records from an offset on."""
        return [record.value for record in self.records(offset)]
