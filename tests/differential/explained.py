"""The table of differences that have a reason. A row covers a difference by API, path and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

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


NO_TRANSACTIONS = "kcli has no transaction coordinator yet, and says so where clients give up at once"
THROWS = (
    "Apache Kafka's handler throws, so that all is UNKNOWN_SERVER_ERROR; kcli answers each part by itself"
)
NOT_ENFORCED = {"request_percentage", "controller_mutation_rate", "connection_creation_rate"}
QUORUM = "kcli's metadata log has no Raft quorum: its epochs, offsets and voters are its own"

TABLE: tuple[Explained, ...] = (
    Explained(
        "ListOffsets|Fetch|DescribeProducers|DescribeLogDirs|Produce|DeleteRecords|OffsetForLeaderEpoch",
        ".*",
        "each broker writes the records of __consumer_offsets in its own order and batches",
        lambda request, difference: "__consumer_offsets" in difference.names,
    ),
    Explained(
        "Metadata",
        r"topics(\.error_code|\.partitions)",
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
        "FindCoordinator", ".*", NO_TRANSACTIONS, lambda request, difference: request.body.key_type == 1
    ),
    Explained(
        "InitProducerId",
        ".*",
        NO_TRANSACTIONS,
        lambda request, difference: bool(request.body.transactional_id),
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
        lambda request, difference: request.body.timeout_ms < 100,
    ),
    Explained(
        "AlterPartitionReassignments",
        r"responses\.partitions.*",
        "kcli refuses a partition that is named twice, where Apache Kafka lets the last one count",
        lambda request, difference: difference.kcli in (ErrorCode.INVALID_REQUEST, "(set)"),
    ),
    Explained(
        "DeleteTopics",
        "responses.*",
        "a topic that is named twice, by name and by id, is refused by both, in rows of another form",
        lambda request, difference: (
            request.version >= 6 and any(each.name is None for each in request.body.topics)
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
        THROWS,
        lambda request, difference: any(each.num_partitions > 2**30 for each in request.body.topics),
    ),
    Explained(
        "CreateTopics",
        r"topics\.configs\.value",
        "kcli shows the value that a configuration has, Apache Kafka the text that was sent",
        lambda request, difference: str(difference.apache).strip().lower() == str(difference.kcli).lower(),
    ),
    Explained(
        "JoinGroup",
        "protocol_name",
        "a refused join has no protocol: Apache Kafka says null from version 7 on, kcli an empty name",
        lambda request, difference: difference == ("protocol_name", None, "", ()),
    ),
    Explained(
        "JoinGroup",
        "member_id",
        "Apache Kafka leaves out the member id of the request where its coordinator throws the error",
        lambda request, difference: difference.apache == "",
    ),
    Explained(
        "JoinGroup",
        ".*",
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
