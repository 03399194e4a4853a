"""What a leader demands of records before they go into its log, and what it makes of them.

Always checked: the structure of the entries, size against `max.message.bytes`, checksum, and for clients
one batch of magic 2 from offset 0, with as many offsets as records, no control batch, a sequence with a
producer id. The records inside are read where a rule needs it: a compacted topic wants keys, a time limit
wants the single timestamps, another codec or an older format wants the batch rebuilt. A batch of at most
`CHECKED_BYTES` is read to its last record in any case, so that a client under development learns what is
wrong with its batches; above that the header and its checksum are trusted, since reading the records
would cost several times what storing them does.

The producer's bytes are stored as they are wherever possible. They are patched in place for append time and a
wrong max timestamp; they are rebuilt for a conversion and for offsets that are not 0, 1, 2 … (Kafka classes
`LogValidator` and `UnifiedLog.analyzeAndValidateRecords`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.compression import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import NO_TIMESTAMP, CorruptRecord, TimestampType
from kcli.protocol.record_batch import RecordBatch, iter_batches
from kcli.protocol.record_batch_builder import RecordBatchBuilder
from kcli.protocol.record_batch_header import HEADER_SIZE, set_append_time, set_max_timestamp
from kcli.storage.log_config import PRODUCER_COMPRESSION
from kcli.storage.producer_append import Origin
from kcli.storage.record_walk import walk_records

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer
    from kcli.storage.log_config import LogConfig

CHECKED_BYTES = 16 * 1024
"""Batches up to this size are always read to their last record."""

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
"""What the records of one batch may grow to while they are checked, unless the caller says otherwise."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class InvalidRecords(KafkaError):
    """A batch refused for some of its records: INVALID_RECORD or INVALID_TIMESTAMP.

    `record_errors` says which, as (index in the batch, why); a Produce response carries them from version
    8 on.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class ValidatedRecords:
    """Records fit to be appended: `data` holds the whole `batches` and nothing else.

    `log_append_time` is -1 unless the topic uses append time.
    """

    __slots__ = ("batches", "data", "log_append_time", "max_timestamp", "origin", "records_count")

    def __init__(
        self, data: bytearray | memoryview, batches: list[RecordBatch], log_append_time: int, origin: Origin
    ) -> None:
        self.data = data
        self.batches = batches
        self.log_append_time = log_append_time
        self.origin = origin
        if len(batches) == 1:
            self.max_timestamp = batches[0].max_timestamp
            self.records_count = batches[0].count
        else:
            self.max_timestamp = max([batch.max_timestamp for batch in batches], default=NO_TIMESTAMP)
            self.records_count = sum([batch.count for batch in batches])


def validate(
    records: Buffer,
    config: LogConfig,
    *,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
    max_decompressed: int = MAX_DECOMPRESSED_BYTES,
) -> ValidatedRecords:
    """Check records a leader is to append, and convert them to what the topic stores.

    A writable buffer is patched in place. An incomplete entry at the end is dropped; what is left may be
    nothing. Needs nothing of the log but its configuration, so it may run in another thread.

    Raises `KafkaError` CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or INVALID_RECORD, and `InvalidRecords`.
    """
    try:
        data, batches = _take_batches(records, config, origin, max_decompressed)
        check = _BatchCheck(config, now_ms, origin, max_decompressed)
        for batch in batches:
            if batch.size_in_bytes > config.max_message_bytes:
                raise _too_large(batch.size_in_bytes, config)
            if not batch.is_valid_crc():
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch is wrong")
            check.check(batch)
        if check.must_rebuild:
            data, batches = check.rebuild(batches)
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    log_append_time = now_ms if config.uses_append_time else NO_TIMESTAMP
    return ValidatedRecords(data, batches, log_append_time, origin)


def _take_batches(
    records: Buffer, config: LogConfig, origin: Origin, max_decompressed: int
) -> tuple[bytearray | memoryview, list[RecordBatch]]:
    """Return a writable buffer and its whole batches, converted up from magic 0 and 1."""
    data: bytearray | memoryview
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        data = bytearray(records)
    else:
        data = records
    batches: list[RecordBatch] = []
    end = 0
    for entry in iter_batches(data):
        if not isinstance(entry, RecordBatch):
            return _convert_up(data, config, max_decompressed)
        if entry.size_in_bytes > config.max_message_bytes:
            raise _too_large(entry.size_in_bytes, config)
        batches.append(entry)
        end += entry.size_in_bytes
    if len(batches) > 1 and origin is Origin.CLIENT:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(batches)} record batches instead of one")
    return (data if end == len(data) else memoryview(data)[:end]), batches


def _convert_up(
    data: bytearray | memoryview, config: LogConfig, max_decompressed: int
) -> tuple[bytearray, list[RecordBatch]]:
    from kcli.protocol.conversion import up_convert

    for entry in iter_batches(data):
        if entry.size_in_bytes > config.max_message_bytes:
            raise _too_large(entry.size_in_bytes, config)
    codec = None
    if config.compression_type != PRODUCER_COMPRESSION:
        codec = _CODECS[config.compression_type]
    converted = up_convert(data, codec=codec, max_bytes=max_decompressed)
    return converted, [RecordBatch(converted)] if converted else []


def _too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record batch of {size} bytes is larger than max.message.bytes: {config.max_message_bytes}",
    )


class _BatchCheck:
    """The checks of one append, and whether they found that the batches must be built anew."""

    __slots__ = ("_codec", "_config", "_max_decompressed", "_now_ms", "_origin", "must_rebuild")

    def __init__(self, config: LogConfig, now_ms: int, origin: Origin, max_decompressed: int) -> None:
        self._config = config
        self._now_ms = now_ms
        self._origin = origin
        self._max_decompressed = max_decompressed
        # None: the producer's.
        self._codec = (
            None
            if config.compression_type == PRODUCER_COMPRESSION
            else _CODECS.get(config.compression_type, Codec.NONE)
        )
        self.must_rebuild = False

    def check(self, batch: RecordBatch) -> None:
        """Check one batch and patch its timestamps."""
        if self._origin is Origin.CLIENT:
            _check_client_header(batch)
        if batch.is_control:
            return
        if self._codec is not None and batch.codec is not self._codec:
            self.must_rebuild = True
        if batch.size_in_bytes <= CHECKED_BYTES or self._rules_need_records(batch):
            self._check_records(batch)
        if self._config.uses_append_time:
            _patch_timestamps(batch, TimestampType.LOG_APPEND_TIME, self._now_ms)

    def rebuild(self, batches: list[RecordBatch]) -> tuple[bytearray, list[RecordBatch]]:
        """Build all batches anew, offsets counted from 0, with the topic's codec."""
        rebuilt = bytearray()
        for batch in batches:
            codec = batch.codec if self._codec is None or batch.is_control else self._codec
            level = self._config.compression_level(codec.name.lower())
            builder = RecordBatchBuilder(
                codec=codec,
                level=level,
                timestamp_type=batch.timestamp_type,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=batch.is_transactional,
                is_control=batch.is_control,
                leader_epoch=batch.partition_leader_epoch,
            )
            for record in batch.records(self._max_decompressed):
                builder.append(record.timestamp, record.key, record.value, record.headers)
            rebuilt += builder.build()
        result = [entry for entry in iter_batches(rebuilt) if isinstance(entry, RecordBatch)]
        for entry in result:
            if entry.size_in_bytes > self._config.max_message_bytes:
                raise _too_large(entry.size_in_bytes, self._config)
        return rebuilt, result

    def _rules_need_records(self, batch: RecordBatch) -> bool:
        config = self._config
        if config.is_compacted or self.must_rebuild:
            return True
        if config.uses_append_time:
            return False
        # The largest timestamp is in the header, the smallest one is not.
        return (
            batch.max_timestamp > self._now_ms + config.message_timestamp_after_max_ms
            or config.message_timestamp_before_max_ms < self._now_ms
        )

    def _check_records(self, batch: RecordBatch) -> None:
        if batch.codec is Codec.NONE:
            # What stands in the batch's own buffer need not be copied out of it.
            data: Buffer = memoryview(batch.buffer)[: batch.position + batch.size_in_bytes]
            start = batch.position + HEADER_SIZE
        else:
            data, start = self._decompress(batch), 0
        try:
            walk = walk_records(data, start, batch.count)
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
        if not walk.offsets_are_dense:
            self.must_rebuild = True
        lacks_keys = self._config.is_compacted and not walk.all_have_keys
        if lacks_keys or self._is_out_of_time(batch, walk.min_delta, walk.max_delta):
            self._check_each(batch)
        if not self._config.uses_append_time and batch.count:
            largest = max(batch.base_timestamp + walk.max_delta, NO_TIMESTAMP)
            _patch_timestamps(batch, TimestampType.CREATE_TIME, largest)

    def _decompress(self, batch: RecordBatch) -> bytes:
        try:
            return batch.record_data(self._max_decompressed)
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error

    def _is_out_of_time(self, batch: RecordBatch, min_delta: int, max_delta: int) -> bool:
        """Whether some record may break the time limits (a missing timestamp looks as if it did)."""
        config = self._config
        if config.uses_append_time:
            return False
        return (
            self._now_ms - batch.base_timestamp - min_delta > config.message_timestamp_before_max_ms
            or batch.base_timestamp + max_delta - self._now_ms > config.message_timestamp_after_max_ms
        )

    def _check_each(self, batch: RecordBatch) -> None:
        """Find the records that break a rule. Raises `InvalidRecords` naming them."""
        config = self._config
        errors: list[tuple[int, str]] = []
        code = ErrorCode.INVALID_RECORD
        try:
            for index, record in enumerate(batch.records(self._max_decompressed)):
                age_ms = self._now_ms - record.timestamp
                if config.is_compacted and record.key is None:
                    errors.append((index, "a record of a compacted topic needs a key"))
                elif (
                    not config.uses_append_time
                    and record.timestamp != NO_TIMESTAMP
                    and not -config.message_timestamp_after_max_ms
                    <= age_ms
                    <= config.message_timestamp_before_max_ms
                ):
                    code = ErrorCode.INVALID_TIMESTAMP
                    errors.append((index, f"timestamp {record.timestamp} is too far from {self._now_ms}"))
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
        if errors:
            message = f"{len(errors)} of {batch.count} records refused, the first: {errors[0][1]}"
            raise InvalidRecords(code, message, errors)


def _check_client_header(batch: RecordBatch) -> None:
    reason = None
    if batch.base_offset:
        reason = f"a base offset of {batch.base_offset}, not 0"
    elif batch.count <= 0 or batch.last_offset_delta + 1 != batch.count:
        reason = f"{batch.count} records up to offset {batch.last_offset_delta}"
    elif batch.is_control:
        reason = "a control batch, which clients must not write"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        reason = f"no sequence for producer {batch.producer_id}"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the record batch has {reason}")
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        errors = [(0, "only the broker may set the timestamp type to append time")]
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, errors[0][1], errors)


def _patch_timestamps(batch: RecordBatch, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Write type and max timestamp into a batch where they differ, with a new checksum."""
    if batch.timestamp_type is timestamp_type and batch.max_timestamp == max_timestamp:
        return
    assert not isinstance(batch.buffer, bytes)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        set_append_time(batch.buffer, batch.position, max_timestamp)
    else:
        set_max_timestamp(batch.buffer, batch.position, timestamp_type, max_timestamp)
    patched = RecordBatch(batch.buffer, batch.position)
    batch.attributes, batch.max_timestamp, batch.crc = patched.attributes, max_timestamp, patched.crc
