"""LogValidator: checks records before a leader appends them, and converts them to what the topic stores.

It checks the structure of the entries, size against `max.message.bytes` and checksum; for clients also that
there is one batch, from offset 0, with as many offsets as records, no control batch, and a sequence with a
producer id. It walks over the records of every batch, decompressed, whatever its size: they must fill the
batch, lie within the topic's time limits, and have keys if the topic is compacted.

The producer's bytes are stored unchanged if possible. They are patched in place for append time and a wrong
max timestamp, and rebuilt for a conversion and for offsets that are not 0, 1, 2 … (Kafka classes
`LogValidator` and `UnifiedLog.analyzeAndValidateRecords`). Kafka looks less closely at compressed records
than at others and stores some that no consumer can read; here the verdict is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import BYTES_PER_RECORD, CorruptRecord, TooMuchData
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    MAGIC_POSITION,
    MIN_RECORD_BYTES,
    TIMESTAMP_TYPE_BIT,
    crc32c,
    set_max_timestamp,
)
from kcli.protocol.records.record import NO_TIMESTAMP, TimestampType
from kcli.protocol.records.record_walk import WALKED_BYTES_PER_RECORD, walk_records
from kcli.storage.log.log_config import PRODUCER_COMPRESSION
from kcli.storage.producers.producer_state import AppendOrigin

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer
    from kcli.storage.log.log_config import LogConfig

MAX_VALIDATED_BYTES = 64 * 1024 * 1024
"""The default limit of the decompressed size of one batch during the check."""

MAX_RECORD_ERRORS = 1000
"""How many bad records an error names at most."""

NO_LIMIT_MS = 2**63 - 1


class InvalidRecords(KafkaError):
    """A batch refused for some of its records: INVALID_RECORD or INVALID_TIMESTAMP.

    `record_errors` lists them as (index in the batch, reason); a Produce response has them from version 8 on.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class TooMuchToRead(KafkaError):
    """Records that a rule needs exceed the caller's limit: MESSAGE_TOO_LARGE.

    Nothing was changed, so the caller may try again with a higher limit.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, reason)


@dataclass(slots=True, eq=False)
class ValidatedRecords:
    """Records ready to be appended: `data` holds the whole `batches` and nothing else.

    `log_append_time` is -1 unless the topic uses append time.
    """

    data: bytearray | memoryview
    batches: list[RecordBatch]
    log_append_time: int
    origin: AppendOrigin


class LogValidator:
    """The rules of one topic configuration. It uses no log, so any thread may call it."""

    __slots__ = (
        "_before_max_ms",
        "_codec",
        "_config",
        "_is_compacted",
        "_max_message_bytes",
        "_uses_append_time",
        "after_max_ms",
        "plain_bytes",
    )

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._max_message_bytes = config.max_message_bytes
        self._uses_append_time = config.uses_append_time
        self._is_compacted = config.is_compacted
        self._before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        # None: keep the codec of the producer.
        self._codec: Codec | None = None
        if config.compression_type != PRODUCER_COMPRESSION:
            name = config.compression_type.upper()
            self._codec = Codec.NONE if name == "UNCOMPRESSED" else Codec[name]
        stores_as_is = self._codec is None and not self._is_compacted and not self._uses_append_time
        self.plain_bytes = 0
        """Up to this size `LogAppender.append_plain` checks all that this configuration demands."""
        if stores_as_is and self._before_max_ms == NO_LIMIT_MS:
            self.plain_bytes = self._max_message_bytes

    def validate(
        self,
        records: Buffer,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        max_decompressed: int = MAX_VALIDATED_BYTES,
    ) -> ValidatedRecords:
        """Check records for a leader, and convert them to what the topic stores.

        A writable buffer is patched in place. An incomplete entry at the end is dropped, even if nothing is
        left. `max_decompressed` limits the work: a record counts as at least `WALKED_BYTES_PER_RECORD`, one
        that is decoded as `BYTES_PER_RECORD`, since a batch of eleven kilobytes can hold eighteen million.

        Raises `KafkaError` CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR (Kafka's
        code for an unknown codec and for bytes that do not decompress), `InvalidRecords`, and `TooMuchToRead`
        beyond the limit.
        """
        data: bytearray | memoryview
        if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
            data = bytearray(records)
        else:
            data = records
        try:
            data, batches = self._take_batches(data, origin, max_decompressed)
            must_rebuild = False
            for batch in batches:
                if self._check(batch, now_ms, origin, max_decompressed):
                    must_rebuild = True
            if must_rebuild:
                data, batches = self._rebuild(batches, max_decompressed)
            if self._uses_append_time:
                for batch in batches:
                    _patch_timestamps(batch, TimestampType.LOG_APPEND_TIME, now_ms)
                return ValidatedRecords(data, batches, now_ms, origin)
        except TooMuchData as error:
            raise TooMuchToRead(error.message) from None
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
        return ValidatedRecords(data, batches, NO_TIMESTAMP, origin)

    def _take_batches(
        self, data: bytearray | memoryview, origin: AppendOrigin, max_decompressed: int
    ) -> tuple[bytearray | memoryview, list[RecordBatch]]:
        """Return the whole batches at the start of a buffer, converted up from magic 0 and 1."""
        size = len(data)
        if size > HEADER_SIZE and data[MAGIC_POSITION] == 2:
            batch = RecordBatch(data)
            if batch.size_in_bytes == size:
                return data, [batch]
        batches: list[RecordBatch] = []
        end = 0
        for entry in iter_batches(data):
            if not isinstance(entry, RecordBatch):
                return self._convert_up(data, max_decompressed)
            batches.append(entry)
            end += entry.size_in_bytes
        if len(batches) > 1 and origin is AppendOrigin.CLIENT:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(batches)} record batches instead of one")
        return memoryview(data)[:end], batches

    def _convert_up(
        self, data: bytearray | memoryview, max_decompressed: int
    ) -> tuple[bytearray, list[RecordBatch]]:
        # Imported here: only producers older than 0.11 send the older formats.
        from kcli.protocol.records.conversion import up_convert

        for number, entry in enumerate(iter_batches(data)):
            if number * BYTES_PER_RECORD > max_decompressed:
                raise TooMuchData(f"a message set of more than {number} entries")
            if entry.size_in_bytes > self._max_message_bytes:
                raise self._too_large(entry.size_in_bytes)
        converted = up_convert(data, codec=self._codec, max_bytes=max_decompressed)
        return converted, [RecordBatch(converted)] if converted else []

    def _check(self, batch: RecordBatch, now_ms: int, origin: AppendOrigin, max_decompressed: int) -> bool:
        """Check one batch and correct its max timestamp; return whether it must be rebuilt."""
        is_clients = origin is AppendOrigin.CLIENT
        if is_clients and batch.base_offset:
            raise _invalid(f"a base offset of {batch.base_offset}, not 0")
        size = batch.size_in_bytes
        if size > self._max_message_bytes:
            raise self._too_large(size)
        start = batch.position
        if crc32c(memoryview(batch.buffer)[start + CRC_START : start + size]) != batch.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch is wrong")
        codec = batch.attributes & CODEC_MASK
        if codec > Codec.ZSTD:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the record batch has an unknown codec, {codec}"
            )
        if is_clients:
            _check_clients_header(batch)
        if batch.is_control or not batch.count:
            return False
        must_renumber = self._check_records(batch, now_ms, max_decompressed)
        return must_renumber or (self._codec is not None and codec != self._codec)

    def _check_records(self, batch: RecordBatch, now_ms: int, max_decompressed: int) -> bool:
        """Walk over the records; return whether their offsets must be renumbered."""
        data, start = _record_data(batch, max_decompressed)
        if batch.count * WALKED_BYTES_PER_RECORD > max_decompressed:
            if batch.count > (len(data) - start) // MIN_RECORD_BYTES:
                raise _invalid("fewer records than it declares")
            raise TooMuchData(f"a record batch of {batch.count} records")
        try:
            smallest, largest, is_dense, is_keyed = walk_records(
                data, start, batch.count, batch.base_timestamp
            )
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
        has_append_time = batch.attributes & TIMESTAMP_TYPE_BIT != 0
        if has_append_time:
            smallest = largest = batch.max_timestamp
        if self._uses_append_time:
            has_bad_times = has_append_time
        else:
            # A missing timestamp, -1, looks like a very old one: the records tell them apart.
            has_bad_times = self._is_out_of_time(largest, now_ms) or smallest < now_ms - self._before_max_ms
            has_bad_times = has_bad_times or (has_append_time and largest == NO_TIMESTAMP)
        if has_bad_times or (self._is_compacted and not is_keyed):
            self._check_each(batch, now_ms, max_decompressed)
        if not self._uses_append_time:
            largest = max(largest, NO_TIMESTAMP)
            if largest != batch.max_timestamp or has_append_time:
                _patch_timestamps(batch, TimestampType.CREATE_TIME, largest)
        return not is_dense

    def _check_each(self, batch: RecordBatch, now_ms: int, max_decompressed: int) -> None:
        """Raise `InvalidRecords`, naming the first records that break a rule, if any do."""
        _check_decoding(batch, max_decompressed)
        errors: list[tuple[int, str]] = []
        code = ErrorCode.INVALID_RECORD
        has_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        try:
            for index, record in enumerate(batch.records(max_decompressed)):
                if self._is_compacted and record.key is None:
                    errors.append((index, "a record of a compacted topic needs a key"))
                elif self._uses_append_time or record.timestamp == NO_TIMESTAMP:
                    if has_append_time:
                        code = ErrorCode.INVALID_TIMESTAMP
                        errors.append((index, "only the broker may set the timestamp type to append time"))
                elif self._is_out_of_time(record.timestamp, now_ms):
                    code = ErrorCode.INVALID_TIMESTAMP
                    errors.append((index, f"timestamp {record.timestamp} is too far from {now_ms}"))
                if len(errors) == MAX_RECORD_ERRORS:
                    break
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from error
        if errors:
            or_more = " or more" if len(errors) == MAX_RECORD_ERRORS else ""
            message = f"{len(errors)}{or_more} of {batch.count} records refused, the first: {errors[0][1]}"
            raise InvalidRecords(code, message, errors)

    def _is_out_of_time(self, timestamp: int, now_ms: int) -> bool:
        if timestamp == NO_TIMESTAMP:
            return False
        return now_ms - timestamp > self._before_max_ms or timestamp - now_ms > self.after_max_ms

    def _rebuild(
        self, batches: list[RecordBatch], max_decompressed: int
    ) -> tuple[bytearray, list[RecordBatch]]:
        """Rebuild all batches with the topic's codec, their offsets counted from 0."""
        rebuilt = bytearray()
        for batch in batches:
            _check_decoding(batch, max_decompressed)
            codec = batch.codec if self._codec is None or batch.is_control else self._codec
            builder = RecordBatchBuilder(
                codec=codec,
                level=self._config.compression_level(codec.name.lower()),
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=batch.is_transactional,
                is_control=batch.is_control,
                leader_epoch=batch.partition_leader_epoch,
            )
            for record in batch.records(max_decompressed):
                if record.timestamp < NO_TIMESTAMP:
                    # Kafka's code, which does not expect them here.
                    raise KafkaError(
                        ErrorCode.UNKNOWN_SERVER_ERROR, f"negative timestamp: {record.timestamp}"
                    )
                builder.append(record.timestamp, record.key, record.value, record.headers)
            rebuilt += builder.build()
        result = [entry for entry in iter_batches(rebuilt) if isinstance(entry, RecordBatch)]
        for entry in result:
            if entry.size_in_bytes > self._max_message_bytes:
                raise self._too_large(entry.size_in_bytes)
        return rebuilt, result

    def _too_large(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record batch of {size} bytes is larger than max.message.bytes: {self._max_message_bytes}",
        )


def _check_clients_header(batch: RecordBatch) -> None:
    """Raise `KafkaError` for what a client must not send (Kafka method `LogValidator.validateBatch`)."""
    if batch.count <= 0 or batch.last_offset_delta + 1 != batch.count:
        raise _invalid(f"{batch.count} records up to offset {batch.last_offset_delta}")
    if batch.is_control:
        raise _invalid("the mark of a control batch, which clients must not write")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise _invalid(f"no sequence for producer {batch.producer_id}")


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"the record batch has {what}")


def _record_data(batch: RecordBatch, max_decompressed: int) -> tuple[Buffer, int]:
    """Return the records of a batch, decompressed, and where they begin."""
    codec = batch.attributes & CODEC_MASK
    if codec:
        try:
            return batch.record_data(max_decompressed), 0
        except TooMuchData:
            raise
        except CorruptRecord as error:
            # To Java's decompressor of zstd, no bytes at all are no records.
            is_nothing = codec == Codec.ZSTD and batch.size_in_bytes == HEADER_SIZE
            code = ErrorCode.INVALID_RECORD if is_nothing else ErrorCode.UNKNOWN_SERVER_ERROR
            raise KafkaError(code, error.message) from error
    # Uncompressed records are read in the batch's own buffer, without a copy.
    end = batch.position + batch.size_in_bytes
    data = batch.buffer if len(batch.buffer) == end else memoryview(batch.buffer)[:end]
    return data, batch.position + HEADER_SIZE


def _check_decoding(batch: RecordBatch, max_decompressed: int) -> None:
    """Raise `TooMuchData` for more records than may be decoded."""
    if batch.count * BYTES_PER_RECORD > max_decompressed:
        raise TooMuchData(f"a record batch of {batch.count} records")


def _patch_timestamps(batch: RecordBatch, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Write type and max timestamp into a batch, with a new checksum."""
    assert not isinstance(batch.buffer, bytes)
    set_max_timestamp(batch.buffer, batch.position, timestamp_type, max_timestamp)
    patched = RecordBatch(batch.buffer, batch.position)
    batch.attributes, batch.max_timestamp, batch.crc = patched.attributes, max_timestamp, patched.crc
