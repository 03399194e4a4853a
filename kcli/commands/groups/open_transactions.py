"""Open transactions as the reason for lag: what `describe --explain` asks about them, and its rule.

Readers with `read_committed` get no further than the last stable offset, where the first open transaction of
a partition begins. A group that has committed exactly that offset, while records follow, waits for its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.client import admin
from kcli.commands.groups.findings import (
    Finding,
    GroupFacts,
    Level,
    OpenTransaction,
    PartitionFacts,
    ago,
    named,
    records,
)
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client

BRIEF_MS = 60_000
"""The default of `transaction.timeout.ms`: a transaction that works seldom rests for longer."""


async def open_transactions(
    client: Client, ends: Mapping[TopicPartition, int], *, timeout_ms: int | None
) -> dict[TopicPartition, OpenTransaction]:
    """Return the first open transaction of each partition whose high watermark, in `ends`, is behind one.

    A leader that does not tell its last stable offset, or its producers, is passed over: an explanation
    goes without what it cannot know.
    """
    if not ends:
        return {}
    answer = await admin.list_offsets(
        client, dict.fromkeys(ends, admin.LATEST), read_committed=True, timeout_ms=timeout_ms
    )
    stable = {
        partition: found.offset
        for partition, found in answer.items()
        if not isinstance(found, KcliError) and found.offset < ends[partition]
    }
    if not stable:
        return {}
    producers = await admin.describe_producers(client, stable, timeout_ms=timeout_ms)
    found: dict[TopicPartition, OpenTransaction] = {}
    for partition, states in producers.items():
        if isinstance(states, KcliError):
            continue
        opened = [
            (each.start_offset, each.producer_id, each.last_timestamp)
            for each in states
            if each.start_offset is not None
        ]
        if opened:
            found[partition] = OpenTransaction(stable[partition], *min(opened))
    return found


def is_held(entry: PartitionFacts) -> bool:
    """Tell whether the group stands where the first open transaction begins, and records follow."""
    return entry.held is not None and waits_at(entry) == entry.held.last_stable_offset


def waits_at(entry: PartitionFacts) -> int | None:
    """Return the offset that the group has not got past while it was watched, None if it is at the end.

    Without a committed offset it is the first one, as for a group that begins there.
    """
    at = entry.now.committed
    if at is None:
        at = entry.start if entry.owner else None
    elif entry.progress != 0:
        return None
    return at if at is not None and at < (entry.now.end or 0) else None


def held_by_transaction(facts: GroupFacts) -> Iterator[Finding]:
    """Find partitions in which readers with read_committed wait for the end of a transaction."""
    for entry in facts.partitions:
        held, at = entry.held, waits_at(entry)
        if held is None or at is None or at > held.last_stable_offset:
            continue  # behind it: it reads uncommitted records
        name, topic = named([entry.partition]), entry.partition[0]
        transaction = (
            f"a transaction of producer {held.producer_id} that is open since offset {held.start_offset}"
            f"{written_text(held, facts.now_ms)}"
        )
        hint = (
            f"`kcli transactions find-hanging --topic {topic}` tells whether its coordinator will end it; "
            f"`kcli transactions describe-producers {topic}:{entry.partition[1]}` shows it"
        )
        if is_held(entry):
            unread = records((entry.now.end or 0) - at)
            is_brief = held.last_timestamp >= 0 and facts.now_ms - held.last_timestamp < BRIEF_MS
            yield Finding(
                Level.WARNING if is_brief else Level.PROBLEM,
                "open-transaction",
                f"{name}: {unread} unread, a reader with read_committed waits at the last stable "
                f"offset {held.last_stable_offset} for the end of {transaction}",
                hint,
            )
        else:
            yield Finding(
                Level.NOTE,
                "open-transaction-ahead",
                f"{name}: a reader with read_committed gets no further than the last stable offset "
                f"{held.last_stable_offset}, because of {transaction}",
                hint,
            )


def written_text(held: OpenTransaction, now_ms: int) -> str:
    return "" if held.last_timestamp < 0 else f", last written {ago(held.last_timestamp, now_ms)}"
