"""Places the replicas of new partitions on brokers, as Kafka's tools do (class `AdminUtils`, KIP-36).

Brokers stand in a row, ordered by id. The first replica of partition k goes to broker (k + start) mod n, so
leaders spread evenly. The others follow at a distance that begins with `shift` and grows by one after each
pass through the row, so that followers of one broker's partitions spread as well. With racks, the row takes
one broker of each rack in turn, and a broker is skipped if it or its rack already has a replica of the
partition while another one has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker that may hold replicas."""

    node_id: int
    rack: str | None = None


def place_replicas(
    candidates: Sequence[Candidate],
    *,
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition from `first_partition` on, the preferred leader first.

    Racks count when every candidate has one. Raises `ValueError` for fewer candidates than replicas.
    """
    if replication_factor > len(candidates):
        raise ValueError(f"{replication_factor} replicas, but only {len(candidates)} brokers")
    racks = {candidate.node_id: candidate.rack for candidate in candidates}
    with_racks = None not in racks.values()
    row = _row(candidates)
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(row) == 0:
            shift += 1
        first = (partition + start_index) % len(row)
        if with_racks:
            placed.append(_place_over_racks(row, racks, replication_factor, first, shift))
        else:
            followers = range(replication_factor - 1)
            placed.append((row[first], *(row[_follower(first, shift + j, len(row))] for j in followers)))
    return placed


def growth_start(candidates: Sequence[Candidate], first_leader: int) -> int:
    """Return the start index of new partitions of an existing topic, which is their shift as well.

    It is the index of the first broker at or above the preferred leader of partition 0, which continues the
    placement of the existing partitions.
    """
    return next((index for index, node_id in enumerate(_row(candidates)) if node_id >= first_leader), 0)


def _follower(first: int, distance: int, count: int) -> int:
    """Return an index other than `first`; consecutive distances give different ones."""
    return (first + 1 + distance % (count - 1)) % count


def _row(candidates: Sequence[Candidate]) -> list[int]:
    """Return the brokers by id; if all have racks, one of each rack in turn, racks by name."""
    if any(candidate.rack is None for candidate in candidates):
        return sorted(candidate.node_id for candidate in candidates)
    by_rack: dict[str, list[int]] = {}
    for candidate in sorted(candidates, key=lambda each: (each.rack or "", each.node_id)):
        by_rack.setdefault(candidate.rack or "", []).append(candidate.node_id)
    longest = max(map(len, by_rack.values()), default=0)
    return [brokers[turn] for turn in range(longest) for brokers in by_rack.values() if turn < len(brokers)]


def _place_over_racks(
    row: list[int], racks: dict[int, str | None], replication_factor: int, first: int, shift: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [row[first]]
    used_racks = {racks[row[first]]}
    attempt = 0
    while len(replicas) < replication_factor:
        broker = row[_follower(first, shift * rack_count + attempt, len(row))]
        attempt += 1
        repeats_rack = racks[broker] in used_racks and len(used_racks) < rack_count
        repeats_broker = broker in replicas and len(replicas) < len(row)
        if not (repeats_rack or repeats_broker):
            replicas.append(broker)
            used_racks.add(racks[broker])
    return tuple(replicas)
