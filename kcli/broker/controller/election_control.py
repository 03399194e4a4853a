"""Elections: requested ones (KIP-183, KIP-460) and periodic ones.

From time to time leadership goes back to preferred replicas. With `unclean.leader.election.enable` a
leaderless partition gets a leader that was not in sync. Either pass stops after `MAX_ELECTIONS_PER_PASS`, so
that other events come in between; the next pass continues.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.broker.controller.partition_change import Election
from kcli.broker.controller.result import MAX_RECORDS_PER_OPERATION, ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.config.broker_definitions import ControllerSettings
    from kcli.broker.controller.partition_change import PartitionDecisions, Place
    from kcli.protocol.internal.metadata_records import PartitionChangeRecord
    from kcli.protocol.topics import TopicPartition

MAX_ELECTIONS_PER_PASS = 1000


class ElectionType(IntEnum):
    """The purpose of an election, numbered as on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    decisions: PartitionDecisions, partitions: Sequence[TopicPartition], *, type: ElectionType
) -> ControllerResult[list[KafkaError | None]]:
    """Elect leaders of partitions; the response has an error or None for each, in order.

    Errors: 3 for an unknown partition, 84 if the leader is the wanted one, 80 and 83 if no replica may lead,
    44 for more than one batch can hold.
    """
    records: list[PartitionChangeRecord] = []
    outcomes: list[KafkaError | None] = []
    decided: set[TopicPartition] = set()
    for each in partitions:
        try:
            if each in decided:
                raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
            record = _elect(decisions, *each, type)
            if len(records) == MAX_RECORDS_PER_OPERATION:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many partitions for one request")
            records.append(record)
        except KafkaError as error:
            outcomes.append(error.detached())
        else:
            decided.add(each)
            outcomes.append(None)
    return ControllerResult(tuple(records), outcomes)


def rebalance(
    decisions: PartitionDecisions, *, percentage: int = 0, limit: int = MAX_ELECTIONS_PER_PASS
) -> ControllerResult[bool]:
    """Elect preferred replicas; the response says whether more may follow.

    A broker gets its partitions back if it does not lead more than `percentage` of those that prefer it.
    """
    preferring: Counter[int] = Counter()
    astray: dict[int, list[Place]] = {}
    for place in decisions.partitions():
        preferred = place.partition.replicas[0]
        preferring[preferred] += 1
        if place.partition.leader != preferred:
            astray.setdefault(preferred, []).append(place)
    records: list[PartitionChangeRecord] = []
    for preferred, places in astray.items():
        if len(places) * 100 <= percentage * preferring[preferred]:
            continue
        for place in places:
            if len(records) == limit:
                return ControllerResult(tuple(records), response=True)
            record = decisions.change(place, election=Election.PREFERRED)
            if record is not None and record.leader == preferred:
                records.append(record)
    return ControllerResult(tuple(records), response=False)


def elect_unclean(
    decisions: PartitionDecisions, *, limit: int = MAX_ELECTIONS_PER_PASS
) -> ControllerResult[bool]:
    """Elect leaders of leaderless partitions if the topic allows it; the response says if more may follow."""
    records: list[PartitionChangeRecord] = []
    for place in decisions.partitions():
        if place.partition.leader != NO_LEADER or not decisions.may_elect_unclean(place.topic.name):
            continue
        if len(records) == limit:
            return ControllerResult(tuple(records), response=True)
        record = decisions.change(place, election=Election.UNCLEAN)
        records.extend([] if record is None else [record])
    return ControllerResult(tuple(records), response=False)


def _elect(decisions: PartitionDecisions, name: str, index: int, type: ElectionType) -> PartitionChangeRecord:
    place = decisions.place(name, index)
    partition = place.partition
    if type is ElectionType.PREFERRED:
        election, is_needed = Election.PREFERRED, partition.leader != partition.replicas[0]
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        election, is_needed = Election.UNCLEAN, partition.leader == NO_LEADER
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not is_needed:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    record = decisions.change(place, election=election)
    if record is None:
        raise KafkaError(code)
    return record


FIRST_REBALANCE_MS = 5000
"""The time from the start of an epoch to the first rebalance."""


@dataclass(slots=True)
class PeriodicElections:
    """The due times of the periodic elections, in one epoch; None until the first `tick`."""

    _rebalance_ms: int | None = None
    _unclean_ms: int | None = None

    def rebalance_is_due(self, now_ms: int, settings: ControllerSettings) -> bool:
        """Return whether to rebalance leaders now; then the next time is an interval later."""
        if self._rebalance_ms is None:
            self._rebalance_ms = now_ms + FIRST_REBALANCE_MS
        if not settings.auto_leader_rebalance or now_ms < self._rebalance_ms:
            return False
        self._rebalance_ms = now_ms + settings.leader_imbalance_check_interval_ms
        return True

    def rebalance_soon(self) -> None:
        """Rebalance at the next tick: one pass was not enough."""
        self._rebalance_ms = 0

    def unclean_is_due(self, now_ms: int, settings: ControllerSettings) -> bool:
        """Return whether to elect unclean leaders now; then the next time is an interval later."""
        if self._unclean_ms is None:
            self._unclean_ms = now_ms + settings.unclean_election_interval_ms
        if now_ms < self._unclean_ms:
            return False
        self._unclean_ms = now_ms + settings.unclean_election_interval_ms
        return True

    def unclean_soon(self) -> None:
        """Look for leaderless partitions at the next tick: configurations have changed."""
        self._unclean_ms = 0
