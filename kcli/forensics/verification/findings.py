"""Finding: one result of a verification; its kinds, the report on a replica, and what a verification checks.

Damage in a log file is of a `DamageKind`, everything else of a `FindingKind`. Both have a severity and
advice.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.forensics.entries.damage import DamageKind
from kcli.storage.dirs.log_directory import RESTORE_HINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.errors import KcliError
    from kcli.forensics.entries.damage import Damage


class Severity(StrEnum):
    """How bad a finding is; `info` is normal and no problem."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_REBUILD = "delete the index and start the broker, or take a fresh one from `--rebuild`"
_REPLICA = "delete the replica if another one is in sync; else save what `kcli dump-log --repair` can"
_CUT = "if the broker was killed: start it, it cuts the log there; else as for bad_crc"
_FINE = "nothing: this is normal"
_OLD = "nothing: brokers can read it; `--rebuild` writes it as newer ones do"
_CHECKPOINT = "delete the file: the broker writes a new one after reading the logs again"
_LOST = "records that were here are gone: compare with another replica before this one becomes leader"

W, I = Severity.WARNING, Severity.INFO  # noqa: E741  # the last column of the table below


class FindingKind(Enum):
    """What was found; `severity`, `meaning` and `advice` are for people."""

    _value_: str
    severity: Severity
    meaning: str
    advice: str

    def __new__(
        cls, value: str, meaning: str, advice: str = _REBUILD, severity: Severity = Severity.ERROR
    ) -> FindingKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.severity, kind.meaning, kind.advice = severity, meaning, advice
        return kind

    INDEX_MISSING = (
        "index_missing",
        "a segment has no such index",
        "start the broker, which builds it, or see `--rebuild`",
        W,
    )
    INDEX_SIZE = "index_size", "the size of an index is not a multiple of the size of its entries"
    INDEX_ZEROS = "index_zeros", "an index has an entry of zeros before other entries"
    INDEX_ZERO_TAIL = (
        "index_zero_tail",
        "a closed segment's index ends with zeros, as a killed broker leaves it",
        _FINE,
        I,
    )
    INDEX_OFFSET_RANGE = "index_offset_range", "an index entry has an offset below its segment's"
    INDEX_ORDER = "index_order", "the entries of an index do not increase"
    INDEX_MISMATCH = (
        "index_mismatch",
        "an index entry has another offset than the last one of the batch it points to",
    )
    INDEX_POSITION = "index_position", "an index entry points to where no batch begins"
    INDEX_PAST_LOG = "index_past_log", "an index entry points past the end of the log"
    INDEX_OLD_MULTI_BATCH = (
        "index_old_multi_batch",
        "an index entry covers several batches appended together, as before Kafka 4.1",
        _OLD,
        I,
    )
    INDEX_OLD_FIRST_OFFSET = (
        "index_old_first_offset",
        "an index entry has the first offset of its batch, as before Kafka 1.1",
        _OLD,
        I,
    )
    TIME_INDEX_MISMATCH = (
        "time_index_mismatch",
        "a time index entry has another timestamp than the largest one of its batch",
    )
    TIME_INDEX_ORDER = "time_index_order", "the entries of a time index do not increase"
    TIME_INDEX_NOT_FOUND = "time_index_not_found", "no batch ends with the offset of a time index entry"
    TIME_INDEX_NOT_LARGEST = (
        "time_index_not_largest",
        "a batch before that of a time index entry has a larger timestamp",
    )
    TIME_INDEX_INCOMPLETE = (
        "time_index_incomplete",
        "the time index of a closed segment lacks its largest timestamp",
    )
    TIME_INDEX_OLD_RECORD_OFFSET = (
        "time_index_old_record_offset",
        "a time index entry has the offset of a record, not of its batch, as in Kafka 3.6 and 3.7",
        _OLD,
        I,
    )
    TRANSACTION_INDEX_ENTRY = "transaction_index_entry", "a transaction index entry is impossible"
    TRANSACTION_INDEX_ORDER = "transaction_index_order", "the entries of a transaction index do not increase"
    TRANSACTION_INDEX_NO_MARKER = (
        "transaction_index_no_marker",
        "a transaction index entry has no abort marker in the log",
    )
    TRANSACTION_INDEX_MISMATCH = (
        "transaction_index_mismatch",
        "a transaction index entry does not agree with the log",
    )
    TRANSACTION_INDEX_INCOMPLETE = (
        "transaction_index_incomplete",
        "an aborted transaction is not in the index: consumers would read its records",
    )
    SEGMENT_OVERLAP = "segment_overlap", "a segment holds offsets that belong to the next one", _REPLICA
    SEGMENT_GAP = "segment_gap", "offsets are missing between two segments: is a file missing?", _REPLICA
    ORPHAN_INDEX = "orphan_index", "a file belongs to a segment that does not exist", "a broker deletes it", W
    BAD_FILE_NAME = (
        "bad_file_name",
        "the name of a file is not one that a segment can have",
        "remove or rename it",
        W,
    )
    TRANSIENT_FILE = (
        "transient_file",
        "a file is being swapped in or deleted",
        "a starting broker finishes that",
        I,
    )
    SNAPSHOT_DAMAGED = (
        "snapshot_damaged",
        "a producer snapshot is damaged",
        "delete it: the broker reads more of the log",
    )
    SNAPSHOT_MISMATCH = (
        "snapshot_mismatch",
        "a producer snapshot does not agree with the log",
        "delete it: the broker writes a new one",
    )
    LEADER_EPOCHS_DAMAGED = (
        "leader_epochs_damaged",
        "the leader epoch checkpoint is damaged",
        "delete the replica if another one is in sync",
    )
    LEADER_EPOCHS_ORDER = (
        "leader_epochs_order",
        "leader epochs or their start offsets do not increase",
        "as for leader_epochs_damaged",
    )
    LEADER_EPOCHS_PAST_LOG = "leader_epochs_past_log", "a leader epoch begins past the end of the log", _LOST
    LEADER_EPOCHS_MISMATCH = (
        "leader_epochs_mismatch",
        "a batch has another leader epoch than the checkpoint says",
        "as for leader_epochs_damaged",
    )
    LEADER_EPOCH_GOING_BACK = (
        "leader_epoch_going_back",
        "a batch has a lower leader epoch than one before it",
        _REPLICA,
    )
    CHECKPOINT_DAMAGED = "checkpoint_damaged", "a checkpoint cannot be read", _CHECKPOINT
    RECOVERY_POINT_PAST_LOG = (
        "recovery_point_past_log",
        "the recovery point is past the end of the log",
        _LOST,
    )
    LOG_START_PAST_LOG = (
        "log_start_past_log",
        "the log start offset is past the end of the log: a starting broker deletes all of it",
        _LOST,
    )
    HIGH_WATERMARK_PAST_LOG = (
        "high_watermark_past_log",
        "the high watermark is past the end of the log",
        _LOST,
    )
    CLEANER_PAST_LOG = (
        "cleaner_past_log",
        "the cleaner's position is past the end of the log",
        "nothing: the broker corrects it",
        W,
    )
    CHECKPOINT_OF_NOTHING = (
        "checkpoint_of_nothing",
        "a checkpoint names a partition that is not in the directory",
        _FINE,
        I,
    )
    PARTITION_METADATA_MISSING = (
        "partition_metadata_missing",
        "there is no partition.metadata, as before Kafka 2.8",
        "nothing: a starting broker writes it",
        I,
    )
    PARTITION_METADATA_DAMAGED = (
        "partition_metadata_damaged",
        "partition.metadata is damaged",
        "delete it: a starting broker writes a new one",
    )
    TOPIC_ID_MISMATCH = (
        "topic_id_mismatch",
        "partitions of one topic have different topic ids",
        "remove the partitions of the topic that was deleted",
    )
    META_PROPERTIES_DAMAGED = "meta_properties_damaged", "meta.properties is damaged", RESTORE_HINT
    META_PROPERTIES_MISMATCH = (
        "meta_properties_mismatch",
        "directories belong to different clusters, or share an id",
        "check which directories were mounted or copied where",
    )
    REPLICAS_DIFFER = (
        "replicas_differ",
        "two replicas hold different records at one offset",
        "find out which one was in sync, and delete the other",
    )
    REPLICA_START = "replica_start", "one replica begins later: its older records were deleted", _FINE, I
    REPLICA_END = "replica_end", "one replica ends earlier: it is behind", _FINE, I
    REPLICA_COMPACTED = "replica_compacted", "one replica has been compacted further", _FINE, I
    MORE_FINDINGS = (
        "more_findings",
        "there are more findings of a kind than are listed",
        "see the first ones",
        I,
    )


Kind: TypeAlias = DamageKind | FindingKind

_DAMAGE_ADVICE = {
    DamageKind.TRUNCATED_HEADER: _CUT,
    DamageKind.TRUNCATED_BATCH: _CUT,
    DamageKind.ZERO_TAIL: _FINE,
    DamageKind.UNCHECKED_RECORDS: "nothing: the checksum was right",
}


def severity_of(kind: Kind) -> Severity:
    if isinstance(kind, FindingKind):
        return kind.severity
    return Severity.INFO if kind.is_harmless else Severity.ERROR


def advice_on(kind: Kind) -> str:
    """Return one sentence about what to do."""
    return kind.advice if isinstance(kind, FindingKind) else _DAMAGE_ADVICE.get(kind, _REPLICA)


MOST_OF_A_KIND = 1000
"""How many findings of one kind are kept for one file."""


class Finding(NamedTuple):
    """What was found in a file, at a position in bytes and at an offset, if it has them.

    `pair` are the two numbers that Kafka's tool prints: the file's, and the log's or the previous one.
    """

    path: str
    kind: Kind
    message: str
    position: int | None = None
    offset: int | None = None
    pair: tuple[int, int] | None = None

    @property
    def severity(self) -> Severity:
        return severity_of(self.kind)


def of_damage(path: str, damage: Damage) -> Finding:
    """Return damage in a log file as a finding."""
    message = damage.message if damage.is_harmless else f"{damage.message}; {damage.what_follows}"
    return Finding(path, damage.kind, message, damage.position, damage.offset)


class Findings:
    """Findings in the order they were added, at most `MOST_OF_A_KIND` of each kind and file."""

    __slots__ = ("_counts", "_kept")

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, Kind]] = Counter()

    def add(self, finding: Finding) -> None:
        """Keep a finding, or only count it."""
        key = finding.path, finding.kind
        self._counts[key] += 1
        if self._counts[key] <= MOST_OF_A_KIND:
            self._kept.append(finding)

    def __iter__(self) -> Iterator[Finding]:
        """Yield the findings, then how many of each kind were left out."""
        yield from self._kept
        for (path, kind), count in self._counts.items():
            if count > MOST_OF_A_KIND:
                message = f"{count - MOST_OF_A_KIND} more of {kind.value} are not listed"
                yield Finding(path, FindingKind.MORE_FINDINGS, message)


class PartitionReport(NamedTuple):
    """The results for one replica directory: findings, files that could not be read, and counts.

    `passed` and `empty` are index files that a starting broker would accept, in sanity mode; `written` are
    fresh indexes.
    """

    directory: str
    findings: list[Finding]
    failures: list[KcliError]
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    topic_id: bytes | None = None
    passed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


class VerificationOptions(NamedTuple):
    """What a verification checks.

    `deep` checks each record; `indexes_only` reports only on indexes; `sanity_only` reads no log;
    `base_offset` limits it to one segment. An offset index may point to batches of up to `max_message_size`.
    """

    deep: bool = False
    indexes_only: bool = False
    sanity_only: bool = False
    base_offset: int | None = None
    max_message_size: int | None = None
