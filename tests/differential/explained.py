"""The table of differences that have a reason. A row covers a difference by API, path and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import CODEC_MASK
from tests.differential.comparing import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.differential.comparing import Difference
    from tests.differential.requests import Request


def _always(request: Request, difference: Difference) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Explained:
    """One row: the APIs (a regular expression), the path (another), and why it differs.

    `when` sees the request and the difference, and narrows the row.
    """

    apis: str
    path: str
    reason: str
    when: Callable[[Request, Difference], bool] = _always

    def covers(self, request: Request, difference: Difference) -> bool:
        """Whether this row is about a difference."""
        return (
            re.fullmatch(self.apis, request.api) is not None
            and re.fullmatch(self.path, difference.path) is not None
            and self.when(request, difference)
        )


THROWS = (
    "Apache Kafka's handler throws, so that all is UNKNOWN_SERVER_ERROR; kcli answers each part by itself"
)
NOT_ENFORCED = {"request_percentage", "controller_mutation_rate", "connection_creation_rate"}
QUORUM = "kcli's metadata log has no Raft quorum: its epochs, offsets and voters are its own"


def _names_a_partition_twice(request: Any) -> bool:
    """Whether a transaction of AddPartitionsToTxn names a partition twice."""
    lists = [request.v3_and_below_topics, *(each.topics for each in request.transactions)]
    return any(
        _has_twice((topic.name, index) for topic in topics for index in topic.partitions) for topics in lists
    )


def _has_twice(things: Iterable[Any]) -> bool:
    """Whether anything is there twice."""
    listed = list(things)
    return len(set(listed)) < len(listed)


def _words(value: object) -> set[str]:
    """The words of the value of a configuration."""
    return {word.strip() for word in str(value).lower().split(",")}


def _batch(request: Request) -> RecordBatch | None:
    """The first batch of a Produce request; None if it is not whole."""
    rows = [data for topic in request.body.topic_data for data in topic.partition_data]
    records = bytes(rows[0].records or b"") if rows else b""
    try:
        return RecordBatch(records)
    except CorruptRecord:
        return None


def _fault(request: Request) -> str:
    """What kcli finds wrong with the records of the first batch."""
    batch = _batch(request)
    if batch is None:
        return "no batch"
    try:
        offsets = [record.offset for record in batch.records()]
    except CorruptRecord as error:
        return error.message
    first = batch.base_offset
    return "" if offsets == list(range(first, first + len(offsets))) else "its offsets do not grow by one"


def _is_compressed(request: Request) -> bool:
    """Whether the first batch has a codec."""
    batch = _batch(request)
    return batch is not None and bool(batch.attributes & CODEC_MASK)


def _is_malformed_inside(request: Request) -> bool:
    """Whether the first batch is compressed, and its records cannot be read."""
    return _is_compressed(request) and bool(_fault(request))


def _has_odd_null(request: Request) -> bool:
    """Whether a record of the first batch has a length below -1, which Java clients take for null."""
    return not _is_compressed(request) and re.search(r" cannot have -\d+ bytes", _fault(request)) is not None


def _is_transactional(request: Request) -> bool:
    """Whether the first batch is part of a transaction."""
    batch = _batch(request)
    return batch is not None and batch.is_transactional


def _is_for_filters(entry: Any) -> bool:
    """Whether an entry of CreateAcls has a number that only filters have."""
    return (
        entry.resource_type == 1
        or entry.resource_pattern_type in (1, 2)
        or entry.operation == 1
        or entry.permission_type == 1
    )


def _has_negative_limit(request: Request) -> bool:
    """Whether a Fetch request has a limit below 0."""
    rows = [each.partition_max_bytes for topic in request.body.topics for each in topic.partitions]
    return min(request.body.max_bytes, *rows, 0) < 0


_APPENDED = r"responses\.partition_responses\.(error_code|base_offset|log_append_time_ms|log_start_offset)"
_PARTITION = r"responses\.partitions"


TABLE: tuple[Explained, ...] = (
    Explained(
        "CreateAcls",
        r"results\.(error_code|error_message)",
        "Apache Kafka cannot name an entry with a number for filters, so that all is UNKNOWN_SERVER_ERROR; "
        "kcli refuses that entry alone",
        lambda request, difference: any(_is_for_filters(each) for each in request.body.creations),
    ),
    Explained(
        "Produce",
        "responses.partition_responses.error_code",
        "Apache Kafka looks for transactional batches before anything else, and fails at damaged ones",
        lambda request, difference: difference.apache == 2 and difference.kcli in (29, 100),
    ),
    Explained(
        "DescribeUserScramCredentials",
        "results.*",
        "Apache Kafka refuses with a row without a name for each user; kcli has none",
        lambda request, difference: difference.kcli in (ABSENT, {}, []),
    ),
    Explained(
        "DescribeAcls|CreateAcls|DeleteAcls",
        "",
        "Apache Kafka cannot read a request with the number 0, or with another pattern than LITERAL in "
        "version 0, and closes the connection; kcli answers with an error",
        lambda request, difference: difference.apache == "closed",
    ),
    Explained(
        "ListOffsets|Fetch|DescribeProducers|DescribeLogDirs|Produce|DeleteRecords|OffsetForLeaderEpoch",
        ".*",
        "each broker writes the records of __consumer_offsets in its own order and batches",
        lambda request, difference: "__consumer_offsets" in difference.names,
    ),
    Explained(
        "Metadata|DescribeTopicPartitions",
        r"topics\.partitions.*|next_cursor.*",
        "how many partitions __consumer_offsets has is a setting of a broker",
        lambda request, difference: "__consumer_offsets" in difference.names,
    ),
    Explained(
        "Metadata",
        r"topics(\.error_code|\.partitions)?",
        "kcli creates a missing topic before it answers, Apache Kafka afterwards",
        lambda request, difference: request.version < 4 or request.body.allow_auto_topic_creation,
    ),
    Explained(
        "Metadata",
        ".*",
        THROWS,
        lambda request, difference: (
            request.version >= 12
            and any(topic.name is None and topic.topic_id == bytes(16) for topic in request.body.topics or [])
        ),
    ),
    Explained(
        "DescribeTopicPartitions",
        ".*",
        THROWS,
        lambda request, difference: any(not topic.name for topic in request.body.topics),
    ),
    Explained(
        "DescribeQuorum",
        r"topics\.partitions\.(leader_epoch|high_watermark|current_voters|observers).*|nodes.*",
        QUORUM,
        lambda request, difference: difference.apache not in (0, -1),
    ),
    Explained(
        "DescribeQuorum",
        r"topics\.partitions\.current_voters\.replica_directory_id",
        QUORUM,
    ),
    Explained(
        "AddPartitionsToTxn",
        r"results_by.*",
        "kcli has one result for a partition that is named twice",
        lambda request, difference: _names_a_partition_twice(request.body),
    ),
    Explained(
        ".*",
        ".*error_message",
        "kcli says what is wrong where Apache Kafka sends the code alone",
        lambda request, difference: difference.kcli == "(set)",
    ),
    Explained(
        "CreateTopics|DeleteTopics|CreatePartitions|ElectLeaders|AlterPartitionReassignments|UpdateFeatures"
        "|ListPartitionReassignments|DeleteRecords",
        ".*",
        "if the time limit has passed, Apache Kafka answers before it acts; kcli acts, and says how it went",
        lambda request, difference: (
            request.body.timeout_ms < 100
            and (
                not difference.path.endswith("error_code") or difference.apache == ErrorCode.REQUEST_TIMED_OUT
            )
        ),
    ),
    Explained(
        "DeleteTopics",
        "responses.*",
        "a topic that is named twice, by name and by id, is refused by both, in rows of another form",
        lambda request, difference: (
            request.version >= 6
            and len(request.body.topics) > 1
            and any(each.name is None for each in request.body.topics)
        ),
    ),
    Explained(
        "AlterClientQuotas",
        "entries.*",
        "kcli refuses quotas that it does not enforce",
        lambda request, difference: any(
            op.key in NOT_ENFORCED for entry in request.body.entries for op in entry.ops
        ),
    ),
    Explained(
        "CreateTopics",
        ".*",
        "more partitions than one request may create fail all its topics in Apache Kafka, one in kcli",
        lambda request, difference: sum(max(each.num_partitions, 0) for each in request.body.topics) > 10_000,
    ),
    Explained(
        "CreateTopics",
        r"topics\.configs\.value",
        "kcli shows the value that a configuration has, Apache Kafka the text that was sent",
        lambda request, difference: _words(difference.apache) == _words(difference.kcli),
    ),
    Explained(
        "Fetch",
        "|error_code|session_id|responses.*",
        "a session id that no shard of Apache Kafka's cache of sessions can have makes its handler throw",
        lambda request, difference: (
            not 0 <= request.body.session_id <= 2**30
            and (difference.path == "session_id" or difference.apache in ("closed", -1, ABSENT, []))
        ),
    ),
    Explained(
        "Produce",
        _APPENDED,
        "Apache Kafka does not compare the length of a record in a compressed batch with its contents, or "
        "finds another fault first, or throws where it cannot read",
        lambda request, difference: (
            _is_malformed_inside(request) and difference.kcli in (ErrorCode.INVALID_RECORD, -1)
        ),
    ),
    Explained(
        "Produce",
        _APPENDED,
        "Apache Kafka throws where it has to number the records of a compressed batch anew; kcli does it",
        lambda request, difference: difference.apache == -1 and _is_malformed_inside(request),
    ),
    Explained(
        "Produce",
        _APPENDED,
        "Apache Kafka takes any negative length for null; kcli refuses what other clients cannot read",
        lambda request, difference: (
            _has_odd_null(request) and difference.kcli in (ErrorCode.INVALID_RECORD, -1)
        ),
    ),
    Explained(
        "Produce",
        "",
        "without a response (acks=0), the differences of codes above are connections closed",
        lambda request, difference: (
            request.body.acks == 0
            and (_is_malformed_inside(request) or _has_odd_null(request) or _is_transactional(request))
        ),
    ),
    Explained(
        "Fetch",
        _PARTITION + r"\.(error_code|high_watermark|last_stable_offset|log_start_offset|records)",
        "a negative limit makes Apache Kafka throw once it reads with it; kcli takes it for 0",
        lambda request, difference: _has_negative_limit(request),
    ),
    Explained(
        "Fetch",
        "|error_code|session_id|responses.*",
        "a zero topic id makes Apache Kafka's handler throw, or never answer",
        lambda request, difference: (
            request.version >= 13
            and any(topic.topic_id == bytes(16) for topic in request.body.topics)
            and difference.apache in ("silent", "closed", -1, ABSENT, "(not set)")
        ),
    ),
    Explained(
        "Fetch",
        _PARTITION
        + r"(\.(error_code|high_watermark|last_stable_offset|log_start_offset|records|current_leader.*))?"
        r"|node_endpoints|error_code|session_id",
        "kcli's nodes do not copy by Fetch requests, so that one in the name of a replica is checked less",
        lambda request, difference: max(request.body.replica_id, request.body.replica_state.replica_id) >= 0,
    ),
    Explained(
        "ConsumerGroupHeartbeat",
        r"member_epoch|assignment.*|groups\.(group_epoch|assignment_epoch|group_state|members.*)",
        "kcli matches an expression before it answers, Apache Kafka afterwards",
        lambda request, difference: bool(request.body.subscribed_topic_regex),
    ),
    Explained(
        "Produce",
        r"responses\.partition_responses",
        "where Apache Kafka's handler fails as a whole, its response has no row; kcli's has one",
        lambda request, difference: (
            difference.apache == ABSENT
            and isinstance(difference.kcli, dict)
            and difference.kcli["error_code"] != ErrorCode.NONE
        ),
    ),
    Explained(
        "Produce",
        "",
        "Apache Kafka never answers a request with null records",
        lambda request, difference: any(
            data.records is None for topic in request.body.topic_data for data in topic.partition_data
        ),
    ),
    Explained(
        "DescribeTopicPartitions",
        "topics|next_cursor.*",
        "a cursor at a partition near 2**31 overflows in Apache Kafka",
        lambda request, difference: (
            request.body.cursor is not None and request.body.cursor.partition_index > 2**30
        ),
    ),
    Explained(
        "JoinGroup",
        "protocol_name|",
        "Apache Kafka never answers a member that names a protocol twice, or counts it once more",
        lambda request, difference: (
            len({each.name for each in request.body.protocols}) < len(request.body.protocols)
        ),
    ),
    Explained(
        "Produce",
        r"responses\.partition_responses\.record_errors",
        "kcli names the first record that is wrong, Apache Kafka each of them",
        lambda request, difference: difference.kcli == ABSENT,
    ),
    Explained(
        "Produce",
        r"responses\.partition_responses\.error_code",
        "Apache Kafka reads the first batch before it looks for the partition, kcli afterwards",
        lambda request, difference: (
            difference.apache in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR)
            and difference.kcli == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ),
    ),
    Explained(
        "Produce",
        r"responses\.partition_responses\.error_code",
        "zstd before version 7 is the first thing that Apache Kafka refuses in a batch, kcli the last",
        lambda request, difference: difference.apache == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    Explained(
        "AlterConfigs|IncrementalAlterConfigs",
        r"responses\.error_code",
        "kcli looks for the resource before it looks at the values",
        lambda request, difference: (
            difference.kcli in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
            and difference.apache != ErrorCode.NONE
        ),
    ),
    Explained(
        "DescribeLogDirs",
        r"results\.topics\.partitions\.partition_size",
        "compressors make other bytes of the same records",
        lambda request, difference: any(str(name).endswith("-gzipped") for name in difference.names),
    ),
    Explained(
        "DescribeConfigs",
        r"results(\.configs)?",
        "kcli describes a resource once, however often it is named",
        lambda request, difference: _has_twice(
            (each.resource_type, each.resource_name) for each in request.body.resources
        ),
    ),
    Explained(
        "IncrementalAlterConfigs",
        r"responses\.error_code",
        "Apache Kafka throws at an unknown operation, unless it finds something else wrong before it",
        lambda request, difference: (
            difference.apache in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_CONFIG)
            and any(
                config.config_operation not in range(4)
                for each in request.body.resources
                for config in each.configs
            )
        ),
    ),
    Explained(
        "AlterClientQuotas",
        r"entries(\..*)?",
        "of an entity that is named twice, Apache Kafka applies the first change and refuses the entity; "
        "kcli applies none",
        lambda request, difference: _has_twice(
            tuple(sorted((part.entity_type, part.entity_name or "") for part in entry.entity))
            for entry in request.body.entries
        ),
    ),
    Explained(
        "AlterClientQuotas",
        "entries",
        "an entity with two parts of one type is refused by both; Apache Kafka's row has one of them",
        lambda request, difference: any(
            len({part.entity_type for part in entry.entity}) < len(entry.entity)
            for entry in request.body.entries
        ),
    ),
    Explained(
        "JoinGroup",
        "member_id",
        "Apache Kafka leaves out the member id of the request where its coordinator throws the error",
        lambda request, difference: difference.apache == "",
    ),
    Explained(
        "JoinGroup",
        r"|groups\..*",
        "Apache Kafka never finishes a rebalance whose time limit is negative; kcli takes it for 0",
        lambda request, difference: request.version > 0 and request.body.rebalance_timeout_ms < 0,
    ),
    Explained(
        "JoinGroup",
        r"groups\.group_state",
        "Apache Kafka keeps an empty group that a refused join has made until it restarts; kcli makes none",
        lambda request, difference: (difference.apache, difference.kcli) == ("Empty", "Dead"),
    ),
    Explained(
        "OffsetFetch",
        ".*",
        THROWS,
        lambda request, difference: (
            request.version >= 9
            and any(group.member_id is None and group.member_epoch >= 0 for group in request.body.groups)
        ),
    ),
    Explained(
        "DescribeCluster",
        ".*",
        "every node of kcli may be the controller, so that its listener serves clients of controllers",
        lambda request, difference: request.body.endpoint_type == 2,
    ),
)
"""Every difference that is meant, with its reason."""


def explanation(request: Request, difference: Difference) -> Any:
    """The row that covers a difference, or None."""
    return next((row for row in TABLE if row.covers(request, difference)), None)
