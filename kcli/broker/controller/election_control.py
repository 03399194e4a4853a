"""Elections that somebody asks for (KIP-183, KIP-460)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.broker.controller.partition_change import Election
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.metadata_records import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.controller.partition_decisions import PartitionDecisions
    from kcli.protocol.metadata_records import PartitionChangeRecord


class ElectionType(IntEnum):
    """What an election is for, numbered as on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    decisions: PartitionDecisions, partitions: Sequence[tuple[str, int]], *, type: ElectionType
) -> ControllerResult[list[KafkaError | None]]:
    """Elect leaders of partitions; the response has an error or None for each, in order.

    Errors: 3 for what does not exist, 84 where the leader is the wanted one already, 80 and 83 where nobody
    may become leader.
    """
    records: list[PartitionChangeRecord] = []
    outcomes: list[KafkaError | None] = []
    decided: set[tuple[str, int]] = set()
    for each in partitions:
        try:
            if each in decided:
                raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
            records.append(_elect(decisions, *each, type))
        except KafkaError as error:
            outcomes.append(error)
        else:
            decided.add(each)
            outcomes.append(None)
    return ControllerResult(tuple(records), outcomes)


def _elect(decisions: PartitionDecisions, name: str, index: int, type: ElectionType) -> PartitionChangeRecord:
    topic, partition = decisions.partition(name, index)
    if type is ElectionType.PREFERRED:
        election, is_needed = Election.PREFERRED, partition.leader != partition.replicas[0]
        nobody = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        election, is_needed = Election.UNCLEAN, partition.leader == NO_LEADER
        nobody = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not is_needed:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    record = decisions.change(topic, index, election=election)
    if record is None:
        raise KafkaError(nobody)
    return record
