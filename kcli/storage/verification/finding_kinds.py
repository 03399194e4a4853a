"""FindingKind: everything a verification can find, what it means and what to do about it.

The kinds of damage in log files are those of `DamageKind`, by the same names.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from kcli.storage.damage import DamageKind


class Severity(StrEnum):
    """How bad it is; what is only `info` is normal, and no problem."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingKind(Enum):
    """What was found. `severity`, `meaning` and `advice` are for people."""

    TRUNCATED_HEADER = "truncated_header"
    TRUNCATED_BATCH = "truncated_batch"
    BAD_SIZE = "bad_size"
    BAD_MAGIC = "bad_magic"
    BAD_CRC = "bad_crc"
    BAD_ATTRIBUTES = "bad_attributes"
    BAD_COUNT = "bad_count"
    BAD_OFFSET = "bad_offset"
    BAD_OFFSET_DELTA = "bad_offset_delta"
    OFFSET_GOING_BACK = "offset_going_back"
    ZEROS = "zeros"
    ZERO_TAIL = "zero_tail"
    GARBAGE = "garbage"
    GARBAGE_TAIL = "garbage_tail"
    UNDECODABLE_RECORDS = "undecodable_records"
    BAD_RECORD = "bad_record"
    BAD_RECORD_CRC = "bad_record_crc"
    BAD_TIMESTAMP = "bad_timestamp"
    UNCHECKED_RECORDS = "unchecked_records"
    BAD_PRODUCER = "bad_producer"

    INDEX_MISSING = "index_missing"
    INDEX_SIZE = "index_size"
    INDEX_ZEROS = "index_zeros"
    INDEX_ZERO_TAIL = "index_zero_tail"
    INDEX_OFFSET_RANGE = "index_offset_range"
    INDEX_ORDER = "index_order"
    INDEX_MISMATCH = "index_mismatch"
    INDEX_POSITION = "index_position"
    INDEX_PAST_LOG = "index_past_log"
    INDEX_OLD_MULTI_BATCH = "index_old_multi_batch"
    INDEX_OLD_FIRST_OFFSET = "index_old_first_offset"
    TIME_INDEX_MISMATCH = "time_index_mismatch"
    TIME_INDEX_ORDER = "time_index_order"
    TIME_INDEX_NOT_FOUND = "time_index_not_found"
    TIME_INDEX_NOT_LARGEST = "time_index_not_largest"
    TIME_INDEX_INCOMPLETE = "time_index_incomplete"
    TIME_INDEX_OLD_RECORD_OFFSET = "time_index_old_record_offset"
    TRANSACTION_INDEX_ENTRY = "transaction_index_entry"
    TRANSACTION_INDEX_ORDER = "transaction_index_order"
    TRANSACTION_INDEX_NO_MARKER = "transaction_index_no_marker"
    TRANSACTION_INDEX_MISMATCH = "transaction_index_mismatch"
    TRANSACTION_INDEX_INCOMPLETE = "transaction_index_incomplete"

    SEGMENT_OVERLAP = "segment_overlap"
    SEGMENT_GAP = "segment_gap"
    ORPHAN_INDEX = "orphan_index"
    BAD_FILE_NAME = "bad_file_name"
    TRANSIENT_FILE = "transient_file"
    SNAPSHOT_DAMAGED = "snapshot_damaged"
    SNAPSHOT_MISMATCH = "snapshot_mismatch"
    LEADER_EPOCHS_DAMAGED = "leader_epochs_damaged"
    LEADER_EPOCHS_ORDER = "leader_epochs_order"
    LEADER_EPOCHS_PAST_LOG = "leader_epochs_past_log"
    LEADER_EPOCHS_MISMATCH = "leader_epochs_mismatch"
    LEADER_EPOCH_GOING_BACK = "leader_epoch_going_back"
    CHECKPOINT_DAMAGED = "checkpoint_damaged"
    RECOVERY_POINT_PAST_LOG = "recovery_point_past_log"
    LOG_START_PAST_LOG = "log_start_past_log"
    HIGH_WATERMARK_PAST_LOG = "high_watermark_past_log"
    CLEANER_PAST_LOG = "cleaner_past_log"
    CHECKPOINT_OF_NOTHING = "checkpoint_of_nothing"
    PARTITION_METADATA_MISSING = "partition_metadata_missing"
    PARTITION_METADATA_DAMAGED = "partition_metadata_damaged"
    TOPIC_ID_MISMATCH = "topic_id_mismatch"
    META_PROPERTIES_DAMAGED = "meta_properties_damaged"
    META_PROPERTIES_MISMATCH = "meta_properties_mismatch"

    REPLICAS_DIFFER = "replicas_differ"
    REPLICA_START = "replica_start"
    REPLICA_END = "replica_end"
    REPLICA_COMPACTED = "replica_compacted"
    MORE_FINDINGS = "more_findings"

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return _FACTS[self].severity

    @property
    def meaning(self) -> str:
        """One sentence: what was found."""
        return _FACTS[self].meaning

    @property
    def advice(self) -> str:
        """One sentence: what to do about it."""
        return _FACTS[self].advice


class _Facts(NamedTuple):
    severity: Severity
    meaning: str
    advice: str


_REBUILD = "delete the index and start the broker, or take a fresh one from `--rebuild`"
_REPLICA = "delete the replica if another one is in sync; else see what `kcli dump-log --repair` can save"
_CUT = "if the broker was killed: start it, it cuts such an end off; else as for bad_crc"
_FINE = "nothing: this is normal"
_OLD = "nothing: brokers read it as it is; `--rebuild` writes it the new way"
_CHECKPOINT = "delete the file: the broker makes it anew, after reading the logs once more"
_LOST = "records that were once here are gone: compare with another replica before this one may lead"

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741  # columns of the table below
_K = FindingKind
_FACTS: dict[FindingKind, _Facts] = {
    **{
        FindingKind(kind.value): _Facts(I if kind.is_harmless else E, kind.meaning, _REPLICA)
        for kind in DamageKind
    },
    _K.TRUNCATED_HEADER: _Facts(E, DamageKind.TRUNCATED_HEADER.meaning, _CUT),
    _K.TRUNCATED_BATCH: _Facts(E, DamageKind.TRUNCATED_BATCH.meaning, _CUT),
    _K.ZERO_TAIL: _Facts(I, DamageKind.ZERO_TAIL.meaning, _FINE),
    _K.UNCHECKED_RECORDS: _Facts(I, DamageKind.UNCHECKED_RECORDS.meaning, "nothing: the checksum was right"),
    _K.INDEX_MISSING: _Facts(
        W, "a segment has no such index", "start the broker, which builds it, or see `--rebuild`"
    ),
    _K.INDEX_SIZE: _Facts(E, "the size of an index is no multiple of that of its entries", _REBUILD),
    _K.INDEX_ZEROS: _Facts(E, "an entry of zeros stands before others", _REBUILD),
    _K.INDEX_ZERO_TAIL: _Facts(
        I, "a closed segment's index ends with zeros, as a killed broker leaves it", _FINE
    ),
    _K.INDEX_OFFSET_RANGE: _Facts(E, "an index entry has an offset below its segment's", _REBUILD),
    _K.INDEX_ORDER: _Facts(E, "the entries of an index do not increase", _REBUILD),
    _K.INDEX_MISMATCH: _Facts(
        E, "an index entry has another offset than the last one of the batch it points to", _REBUILD
    ),
    _K.INDEX_POSITION: _Facts(E, "an index entry points to where no batch begins", _REBUILD),
    _K.INDEX_PAST_LOG: _Facts(E, "an index entry points past the end of the log", _REBUILD),
    _K.INDEX_OLD_MULTI_BATCH: _Facts(
        I, "an index entry stands for several batches appended at once, as before Kafka 4.1", _OLD
    ),
    _K.INDEX_OLD_FIRST_OFFSET: _Facts(
        I, "an index entry has the first offset of its batch, as before Kafka 1.1", _OLD
    ),
    _K.TIME_INDEX_MISMATCH: _Facts(
        E, "a time index entry has another timestamp than the largest one of its batch", _REBUILD
    ),
    _K.TIME_INDEX_ORDER: _Facts(E, "the entries of a time index do not increase", _REBUILD),
    _K.TIME_INDEX_NOT_FOUND: _Facts(
        E, "the offset of a time index entry is not the last one of any batch", _REBUILD
    ),
    _K.TIME_INDEX_NOT_LARGEST: _Facts(
        E, "a larger timestamp stands before the one of a time index entry", _REBUILD
    ),
    _K.TIME_INDEX_INCOMPLETE: _Facts(
        E, "the time index of a closed segment lacks its largest timestamp", _REBUILD
    ),
    _K.TIME_INDEX_OLD_RECORD_OFFSET: _Facts(
        I, "a time index entry has the offset of a record, not of its batch, as in Kafka 3.6 and 3.7", _OLD
    ),
    _K.TRANSACTION_INDEX_ENTRY: _Facts(E, "a transaction index entry cannot be", _REBUILD),
    _K.TRANSACTION_INDEX_ORDER: _Facts(E, "the entries of a transaction index do not increase", _REBUILD),
    _K.TRANSACTION_INDEX_NO_MARKER: _Facts(
        E, "a transaction index entry has no abort marker in the log", _REBUILD
    ),
    _K.TRANSACTION_INDEX_MISMATCH: _Facts(
        E, "a transaction index entry does not say what the log does", _REBUILD
    ),
    _K.TRANSACTION_INDEX_INCOMPLETE: _Facts(
        E, "an aborted transaction is not in the index: consumers would read its records", _REBUILD
    ),
    _K.SEGMENT_OVERLAP: _Facts(E, "a segment holds offsets that belong to the next one", _REPLICA),
    _K.SEGMENT_GAP: _Facts(E, "offsets are missing between two segments: is a file missing?", _REPLICA),
    _K.ORPHAN_INDEX: _Facts(W, "a file belongs to a segment that is not there", "a broker deletes it"),
    _K.BAD_FILE_NAME: _Facts(W, "the name of a file is not the one its segment has", "remove or rename it"),
    _K.TRANSIENT_FILE: _Facts(I, "a file is on its way in or out", "a starting broker sees to it"),
    _K.SNAPSHOT_DAMAGED: _Facts(
        E,
        "a producer snapshot is damaged",
        "delete it: the broker reads more of the log",
    ),
    _K.SNAPSHOT_MISMATCH: _Facts(
        E, "a producer snapshot does not say what the log does", "delete it: the broker makes it anew"
    ),
    _K.LEADER_EPOCHS_DAMAGED: _Facts(
        E,
        "the leader epoch checkpoint is damaged",
        "delete the replica if another one is in sync",
    ),
    _K.LEADER_EPOCHS_ORDER: _Facts(
        E, "leader epochs or their start offsets do not increase", "as for leader_epochs_damaged"
    ),
    _K.LEADER_EPOCHS_PAST_LOG: _Facts(E, "a leader epoch begins past the end of the log", _LOST),
    _K.LEADER_EPOCHS_MISMATCH: _Facts(
        E, "a batch has another leader epoch than the checkpoint says", "as for leader_epochs_damaged"
    ),
    _K.LEADER_EPOCH_GOING_BACK: _Facts(E, "a batch has a lower leader epoch than one before it", _REPLICA),
    _K.CHECKPOINT_DAMAGED: _Facts(E, "a checkpoint cannot be read", _CHECKPOINT),
    _K.RECOVERY_POINT_PAST_LOG: _Facts(E, "the recovery point is past the end of the log", _LOST),
    _K.LOG_START_PAST_LOG: _Facts(
        E, "the log start is past the end of the log: a starting broker drops all of it", _LOST
    ),
    _K.HIGH_WATERMARK_PAST_LOG: _Facts(E, "the high watermark is past the end of the log", _LOST),
    _K.CLEANER_PAST_LOG: _Facts(
        W, "the cleaner's position is past the end of the log", "nothing: the broker sets it right"
    ),
    _K.CHECKPOINT_OF_NOTHING: _Facts(I, "a checkpoint names a partition that is not here", _FINE),
    _K.PARTITION_METADATA_MISSING: _Facts(
        I, "there is no partition.metadata, as before Kafka 2.8", "nothing: a starting broker writes it"
    ),
    _K.PARTITION_METADATA_DAMAGED: _Facts(
        E, "partition.metadata is damaged", "delete it: a starting broker writes it anew"
    ),
    _K.TOPIC_ID_MISMATCH: _Facts(
        E, "partitions of one topic have different topic ids", "remove those of a topic deleted before"
    ),
    _K.META_PROPERTIES_DAMAGED: _Facts(
        E, "meta.properties is damaged", "write it as that of the node's other directories"
    ),
    _K.META_PROPERTIES_MISMATCH: _Facts(
        E, "directories belong to different clusters, or share an id", "see what was mounted or copied where"
    ),
    _K.REPLICAS_DIFFER: _Facts(
        E, "two replicas hold different records at one offset", "find out which was in sync, delete the other"
    ),
    _K.REPLICA_START: _Facts(I, "one replica begins later: its older records were deleted", _FINE),
    _K.REPLICA_END: _Facts(I, "one replica ends earlier: it is behind", _FINE),
    _K.REPLICA_COMPACTED: _Facts(I, "one replica has been compacted further", _FINE),
    _K.MORE_FINDINGS: _Facts(I, "there is more of a kind than is listed", "see the first ones of it"),
}
