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

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741  # columns of the tables below


class FindingKind(Enum):
    """What was found; `severity`, `meaning` and `advice` are for people."""

    _value_: str
    severity: Severity
    meaning: str
    advice: str

    def __new__(cls, value: str, severity: Severity, meaning: str, advice: str) -> FindingKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.severity, kind.meaning, kind.advice = severity, meaning, advice
        return kind

    INDEX_MISSING = (
        "index_missing",
        W,
        "a segment has no such index",
        "start the broker, which builds it, or see `--rebuild`",
    )
    INDEX_SIZE = (
        "index_size",
        E,
        "the size of an index is not a multiple of the size of its entries",
        _REBUILD,
    )
    INDEX_ZEROS = "index_zeros", E, "an index has an entry of zeros before other entries", _REBUILD
    INDEX_ZERO_TAIL = (
        "index_zero_tail",
        I,
        "a closed segment's index ends with zeros, as a killed broker leaves it",
        _FINE,
    )
    INDEX_OFFSET_RANGE = "index_offset_range", E, "an index entry has an offset below its segment's", _REBUILD
    INDEX_ORDER = "index_order", E, "the entries of an index do not increase", _REBUILD
    INDEX_MISMATCH = (
        "index_mismatch",
        E,
        "an index entry has another offset than the last one of the batch it points to",
        _REBUILD,
    )
    INDEX_POSITION = "index_position", E, "an index entry points to where no batch begins", _REBUILD
    INDEX_PAST_LOG = "index_past_log", E, "an index entry points past the end of the log", _REBUILD
    INDEX_OLD_MULTI_BATCH = (
        "index_old_multi_batch",
        I,
        "an index entry covers several batches appended together, as before Kafka 4.1",
        _OLD,
    )
    INDEX_OLD_FIRST_OFFSET = (
        "index_old_first_offset",
        I,
        "an index entry has the first offset of its batch, as before Kafka 1.1",
        _OLD,
    )
    TIME_INDEX_MISMATCH = (
        "time_index_mismatch",
        E,
        "a time index entry has another timestamp than the largest one of its batch",
        _REBUILD,
    )
    TIME_INDEX_ORDER = "time_index_order", E, "the entries of a time index do not increase", _REBUILD
    TIME_INDEX_NOT_FOUND = (
        "time_index_not_found",
        E,
        "no batch ends with the offset of a time index entry",
        _REBUILD,
    )
    TIME_INDEX_NOT_LARGEST = (
        "time_index_not_largest",
        E,
        "a batch before that of a time index entry has a larger timestamp",
        _REBUILD,
    )
    TIME_INDEX_INCOMPLETE = (
        "time_index_incomplete",
        E,
        "the time index of a closed segment lacks its largest timestamp",
        _REBUILD,
    )
    TIME_INDEX_OLD_RECORD_OFFSET = (
        "time_index_old_record_offset",
        I,
        "a time index entry has the offset of a record, not of its batch, as in Kafka 3.6 and 3.7",
        _OLD,
    )
    TRANSACTION_INDEX_ENTRY = (
        "transaction_index_entry",
        E,
        "a transaction index entry is impossible",
        _REBUILD,
    )
    TRANSACTION_INDEX_ORDER = (
        "transaction_index_order",
        E,
        "the entries of a transaction index do not increase",
        _REBUILD,
    )
    TRANSACTION_INDEX_NO_MARKER = (
        "transaction_index_no_marker",
        E,
        "a transaction index entry has no abort marker in the log",
        _REBUILD,
    )
    TRANSACTION_INDEX_MISMATCH = (
        "transaction_index_mismatch",
        E,
        "a transaction index entry does not agree with the log",
        _REBUILD,
    )
    TRANSACTION_INDEX_INCOMPLETE = (
        "transaction_index_incomplete",
        E,
        "an aborted transaction is not in the index: consumers would read its records",
        _REBUILD,
    )
    SEGMENT_OVERLAP = "segment_overlap", E, "a segment holds offsets that belong to the next one", _REPLICA
    SEGMENT_GAP = "segment_gap", E, "offsets are missing between two segments: is a file missing?", _REPLICA
    ORPHAN_INDEX = "orphan_index", W, "a file belongs to a segment that does not exist", "a broker deletes it"
    BAD_FILE_NAME = (
        "bad_file_name",
        W,
        "the name of a file is not one that a segment can have",
        "remove or rename it",
    )
    TRANSIENT_FILE = (
        "transient_file",
        I,
        "a file is being swapped in or deleted",
        "a starting broker finishes that",
    )
    SNAPSHOT_DAMAGED = (
        "snapshot_damaged",
        E,
        "a producer snapshot is damaged",
        "delete it: the broker reads more of the log",
    )
    SNAPSHOT_MISMATCH = (
        "snapshot_mismatch",
        E,
        "a producer snapshot does not agree with the log",
        "delete it: the broker writes a new one",
    )
    LEADER_EPOCHS_DAMAGED = (
        "leader_epochs_damaged",
        E,
        "the leader epoch checkpoint is damaged",
        "delete the replica if another one is in sync",
    )
    LEADER_EPOCHS_ORDER = (
        "leader_epochs_order",
        E,
        "leader epochs or their start offsets do not increase",
        "as for leader_epochs_damaged",
    )
    LEADER_EPOCHS_PAST_LOG = (
        "leader_epochs_past_log",
        E,
        "a leader epoch begins past the end of the log",
        _LOST,
    )
    LEADER_EPOCHS_MISMATCH = (
        "leader_epochs_mismatch",
        E,
        "a batch has another leader epoch than the checkpoint says",
        "as for leader_epochs_damaged",
    )
    LEADER_EPOCH_GOING_BACK = (
        "leader_epoch_going_back",
        E,
        "a batch has a lower leader epoch than one before it",
        _REPLICA,
    )
    CHECKPOINT_DAMAGED = "checkpoint_damaged", E, "a checkpoint cannot be read", _CHECKPOINT
    RECOVERY_POINT_PAST_LOG = (
        "recovery_point_past_log",
        E,
        "the recovery point is past the end of the log",
        _LOST,
    )
    LOG_START_PAST_LOG = (
        "log_start_past_log",
        E,
        "the log start offset is past the end of the log: a starting broker deletes all of it",
        _LOST,
    )
    HIGH_WATERMARK_PAST_LOG = (
        "high_watermark_past_log",
        E,
        "the high watermark is past the end of the log",
        _LOST,
    )
    CLEANER_PAST_LOG = (
        "cleaner_past_log",
        W,
        "the cleaner's position is past the end of the log",
        "nothing: the broker corrects it",
    )
    CHECKPOINT_OF_NOTHING = (
        "checkpoint_of_nothing",
        I,
        "a checkpoint names a partition that is not in the directory",
        _FINE,
    )
    PARTITION_METADATA_MISSING = (
        "partition_metadata_missing",
        I,
        "there is no partition.metadata, as before Kafka 2.8",
        "nothing: a starting broker writes it",
    )
    PARTITION_METADATA_DAMAGED = (
        "partition_metadata_damaged",
        E,
        "partition.metadata is damaged",
        "delete it: a starting broker writes a new one",
    )
    TOPIC_ID_MISMATCH = (
        "topic_id_mismatch",
        E,
        "partitions of one topic have different topic ids",
        "remove the partitions of the topic that was deleted",
    )
    META_PROPERTIES_DAMAGED = ("meta_properties_damaged", E, "meta.properties is damaged", RESTORE_HINT)
    META_PROPERTIES_MISMATCH = (
        "meta_properties_mismatch",
        E,
        "directories belong to different clusters, or share an id",
        "check which directories were mounted or copied where",
    )
    REPLICAS_DIFFER = (
        "replicas_differ",
        E,
        "two replicas hold different records at one offset",
        "find out which one was in sync, and delete the other",
    )
    REPLICA_START = "replica_start", I, "one replica begins later: its older records were deleted", _FINE
    REPLICA_END = "replica_end", I, "one replica ends earlier: it is behind", _FINE
    REPLICA_COMPACTED = "replica_compacted", I, "one replica has been compacted further", _FINE
    MORE_FINDINGS = (
        "more_findings",
        I,
        "there are more findings of a kind than are listed",
        "see the first ones",
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
