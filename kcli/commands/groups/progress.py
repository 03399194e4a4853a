"""What the offsets of a group say: out of range, never committed, stuck, growing or shrinking. Pure.

Each function is a rule of `explain`. Two looks tell what moves; the time of the last commit, from the
group's records, tells for how long something has not.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.commands.groups.facts import GroupFacts, PartitionFacts
from kcli.commands.groups.findings import Finding, Level, named, records
from kcli.commands.groups.lag import MINUTE_MS, duration_text

QUIET_MS = 10_000
SILENT_MS = MINUTE_MS
"""A consumer commits every five seconds unless it was told otherwise: one may be quiet, but not silent."""


def out_of_range(facts: GroupFacts) -> Iterator[Finding]:
    """Say which committed offsets lie outside of their partitions."""
    for entry in facts.partitions:
        committed, name = entry.now.committed, named([entry.partition])
        if committed is None:
            continue
        if entry.start is not None and committed < entry.start:
            yield Finding(
                Level.PROBLEM,
                "below-log-start",
                f"{name}: offset {committed} is committed and the first record is {entry.start}: "
                f"{records(entry.start - committed)} were deleted unread",
                "a consumer that starts there goes where auto.offset.reset says",
            )
        elif entry.now.end is not None and committed > entry.now.end:
            yield Finding(
                Level.PROBLEM,
                "beyond-log-end",
                f"{name}: offset {committed} is committed and the partition ends at {entry.now.end}",
                "the topic was created anew, or lost records; `reset-offsets --to-earliest` or `--to-latest` "
                "puts it right",
            )


def never_committed(facts: GroupFacts) -> Iterator[Finding]:
    """Say which owned partitions hold records and have no committed offset."""
    found = uncommitted(facts)
    if found:
        waiting = records(sum((entry.now.end or 0) - (entry.start or 0) for entry in found))
        yield Finding(
            Level.WARNING,
            "never-committed",
            f"nothing is committed of {named(entry.partition for entry in found)}, which holds {waiting}: "
            "no lag is counted there",
            "the consumer has just begun, or it never commits (enable.auto.commit)",
        )


def uncommitted(facts: GroupFacts) -> list[PartitionFacts]:
    """Return the owned partitions that hold records and have no committed offset."""
    return [
        entry
        for entry in facts.partitions
        if entry.owner and entry.now.committed is None and (entry.now.end or 0) > (entry.start or 0)
    ]


def stuck(facts: GroupFacts) -> Iterator[Finding]:
    """Say which members have stopped committing although records wait, or get no further in a partition."""
    if not facts.apart_ms:
        return
    for member in facts.members:
        mine = [entry for entry in facts.partitions if entry.owner == member.member_id]
        behind = [entry for entry in mine if entry.lag and entry.progress == 0]
        if not behind:
            continue
        silences = [silence for entry in behind if (silence := silent_for(entry, facts)) is not None]
        lasting = min(silences) if silences else facts.apart_ms
        if lasting < QUIET_MS:
            continue
        level = Level.PROBLEM if lasting >= SILENT_MS else Level.NOTE
        where = named(entry.partition for entry in behind)
        waiting = records(sum(entry.lag for entry in behind))
        if any(entry.progress for entry in mine):
            first = behind[0]
            yield Finding(
                level,
                "stuck-partition",
                f"{member.name()} reads its other partitions, and has committed nothing of {where} "
                f"for {duration_text(lasting)}: {waiting} unread",
                f"look at the record it may fail at: `kcli consume {first.partition[0]} "
                f"--partition {first.partition[1]} --offset {first.now.committed} --max-messages 1`",
            )
        else:
            others = any(entry.progress for entry in facts.partitions)
            yield Finding(
                level,
                "stopped-committing",
                f"{member.name()} has committed nothing for {duration_text(lasting)}"
                f"{', while others do' if others else ''}: {waiting} of {where} unread",
                "it still heartbeats: it hangs, is slow in its work, or does not commit",
            )


def silent_for(entry: PartitionFacts, facts: GroupFacts) -> int | None:
    """Return for how long nothing was committed of a partition, as far as is known."""
    return None if entry.last_commit_ms is None else max(0, facts.now_ms - entry.last_commit_ms)


def lag_trend(facts: GroupFacts) -> Iterator[Finding]:
    """Say whether the lag of the group grows or shrinks, and how fast."""
    both = [
        entry for entry in facts.partitions if entry.before is not None and entry.before.lag() is not None
    ]
    lag = sum(entry.lag for entry in facts.partitions)
    if not facts.members or not facts.apart_ms or not both:
        return
    seconds = facts.apart_ms / 1000
    read = sum(max(0, entry.progress or 0) for entry in both) / seconds
    written = (
        sum(max(0, (entry.now.end or 0) - ((entry.before and entry.before.end) or 0)) for entry in both)
        / seconds
    )
    rates = f"{rate_text(written)} records/s come in, {rate_text(read)}/s are read"
    if lag == 0:
        if written or read:
            where = " where something is committed" if uncommitted(facts) else ""
            yield Finding(Level.FINE, "caught-up", f"no lag{where}: {rates}")
    elif read > written:
        rest = duration_text(round(lag / (read - written)) * 1000)
        yield Finding(
            Level.NOTE, "lag-shrinks", f"the lag of {records(lag)} shrinks: {rates}; gone in about {rest}"
        )
    elif written > read:
        yield Finding(
            Level.WARNING,
            "lag-grows",
            f"the lag of {records(lag)} grows: {rates}",
            "more members read faster, as long as there are partitions for them",
        )
    else:
        yield Finding(Level.NOTE, "lag-stays", f"the lag of {records(lag)} stays: {rates}")


def rate_text(rate: float) -> str:
    """Return a rate, of a small one with a decimal place."""
    return f"{rate:.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"
