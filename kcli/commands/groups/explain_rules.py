"""The rules of `describe --explain`: each examines one fact of a group and yields findings. Pure.

A rule states what is known. Where it can only guess, it names the usual cause. Snapshots of offsets, over
three intervals of commits, tell what moves; the time of the last commit, from the group's records, tells for
how long something has not moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from kcli.commands.groups.findings import (
    Finding,
    GroupFacts,
    Level,
    MemberFacts,
    PartitionFacts,
    Trend,
    ago,
    named,
    records,
)
from kcli.commands.groups.history import GenerationEvent
from kcli.commands.groups.open_transactions import held_by_transaction, is_held
from kcli.commands.shared.formatting import MINUTE_MS, counted, lag_text, listed, moment_text
from kcli.protocol.topics import TopicPartition

SILENT_SPANS = 2
"""A member that has committed nothing for twice as long as it was watched is a problem."""


def out_of_range(facts: GroupFacts) -> Iterator[Finding]:
    """Find committed offsets outside of their partitions."""
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
                "a consumer that starts there follows auto.offset.reset",
            )
        elif entry.now.end is not None and committed > entry.now.end:
            yield Finding(
                Level.PROBLEM,
                "beyond-log-end",
                f"{name}: offset {committed} is committed and the partition ends at {entry.now.end}",
                "the topic was created anew, or lost records; `reset-offsets --to-earliest` or `--to-latest` "
                "repairs it",
            )


def never_committed(facts: GroupFacts) -> Iterator[Finding]:
    """Find owned partitions with records and without a committed offset."""
    found = [entry for entry in uncommitted(facts) if not is_held(entry)]
    if found:
        waiting = records(sum((entry.now.end or 0) - (entry.start or 0) for entry in found))
        yield Finding(
            Level.WARNING,
            "never-committed",
            f"nothing is committed of {named(entry.partition for entry in found)}, which holds {waiting}: "
            "their lag is unknown",
            "the consumer has just begun, or it never commits (enable.auto.commit)",
        )


def uncommitted(facts: GroupFacts) -> list[PartitionFacts]:
    return [
        entry
        for entry in facts.partitions
        if entry.owner and entry.now.committed is None and (entry.now.end or 0) > (entry.start or 0)
    ]


def stuck(facts: GroupFacts) -> Iterator[Finding]:
    """Find members that have stopped committing, or are stuck in a partition, although records wait."""
    if not facts.apart_ms:
        return
    for member in facts.members:
        mine = [entry for entry in facts.partitions if entry.owner == member.member_id]
        behind = [entry for entry in mine if entry.lag and entry.progress == 0 and not is_held(entry)]
        if not behind:
            continue
        commits = [entry.last_commit_ms for entry in behind if entry.last_commit_ms is not None]
        lasting = max(0, facts.now_ms - max(commits)) if commits else facts.apart_ms
        where = named(entry.partition for entry in behind)
        coming = sum(entry.written or 0 for entry in behind) * 1000 / facts.apart_ms
        more = f", {rate_text(coming)} more come in each second" if coming else ""
        waiting = records(lag_of(behind))
        if lasting < facts.apart_ms:
            yield Finding(
                Level.WARNING,
                "commits-the-same",
                f"{member.name()} commits the same offset of {where} again and again: {waiting} unread{more}",
                "it is alive and does not get on: it has paused, or fails at a record",
            )
            continue
        level = Level.PROBLEM if lasting >= SILENT_SPANS * facts.apart_ms else Level.WARNING
        if any(entry.progress and not entry.has_moved for entry in mine):
            first = behind[0]
            yield Finding(
                level,
                "stuck-partition",
                f"{member.name()} reads its other partitions, and has committed nothing of {where} "
                f"for {lag_text(lasting)}: {waiting} unread{more}",
                f"look at the record it may fail at: `kcli consume {first.partition[0]} "
                f"--partition {first.partition[1]} --offset {first.now.committed} --max-messages 1`",
            )
        else:
            others = any(entry.progress for entry in facts.partitions)
            yield Finding(
                level,
                "stopped-committing",
                f"{member.name()} has committed nothing for {lag_text(lasting)}"
                f"{', while others do' if others else ''}: {waiting} of {where} unread{more}",
                silence_hint(facts, member, commits),
            )


def silence_hint(facts: GroupFacts, member: MemberFacts, commits: Sequence[int]) -> str:
    """Return what may be the matter with a silent member.

    A coordinator removes a member that sends nothing for its session timeout. The last join and the last
    commit reset that; a member that is there for longer since then has sent heartbeats.
    """
    timeout = member.session_timeout_ms
    heard = [*commits, *(event.at_ms for event in facts.generations[-1:])]
    if timeout is None or not heard:
        return "it hangs, is stopped, is slow in its work, or does not commit"
    if facts.now_ms - max(heard) > timeout:
        return "it still heartbeats: it hangs, is slow in its work, or does not commit"
    return (
        f"it hangs, is stopped, or is slow in its work; without heartbeats it is removed "
        f"{lag_text(timeout)} after the last one"
    )


def lag_trend(facts: GroupFacts) -> Iterator[Finding]:
    """Tell where the lag grows, shrinks or stays, and how fast; partitions that are stuck are told apart."""
    if not facts.members or not facts.apart_ms:
        return
    by_trend = {
        trend: [entry for entry in facts.partitions if entry.trend is trend]
        for trend in (Trend.GROWS, Trend.SHRINKS, Trend.STAYS)
    }
    moving = [entry for entries in by_trend.values() for entry in entries]
    lag = sum(entry.lag for entry in facts.partitions)
    if not lag and any(entry.written or entry.progress for entry in moving):
        where = " where something is committed" if uncommitted(facts) else ""
        yield Finding(Level.FINE, "caught-up", f"no lag{where}: {rates(moving, facts.apart_ms)}")
        return
    grows, shrinks, stays = by_trend.values()
    if grows:
        yield Finding(
            Level.WARNING,
            "lag-grows",
            f"the lag of {where_lag(grows)} grows: {rates(grows, facts.apart_ms)}",
            growing_hint(facts, grows),
        )
    if shrinks:
        seconds = facts.apart_ms / 1000
        faster = sum((entry.progress or 0) - (entry.written or 0) for entry in shrinks) / seconds
        rest = f"; gone in about {lag_text(round(lag_of(shrinks) / faster) * 1000)}" if faster > 0 else ""
        yield Finding(
            Level.NOTE,
            "lag-shrinks",
            f"the lag of {where_lag(shrinks)} shrinks: {rates(shrinks, facts.apart_ms)}{rest}",
        )
    behind = [entry for entry in stays if entry.lag]
    if behind:
        yield Finding(
            Level.NOTE,
            "lag-stays",
            f"the lag of {where_lag(behind)} stays about the same: {rates(behind, facts.apart_ms)}",
        )


def unread(facts: GroupFacts) -> Iterator[Finding]:
    """Account for lag that has neither a trend nor a member that could be stuck.

    `unowned_partitions` tells of partitions without an owner while the group is stable.
    """
    if not facts.members or not facts.apart_ms:
        return
    members = {member.member_id for member in facts.members}
    behind = [entry for entry in facts.partitions if entry.lag]
    nobodys = [entry for entry in behind if entry.progress == 0 and entry.owner not in members]
    if nobodys and not (facts.head.state == "Stable" and facts.topics):
        commits = [entry.last_commit_ms for entry in nobodys if entry.last_commit_ms is not None]
        lasting = max(0, facts.now_ms - max(commits)) if commits else facts.apart_ms
        yield Finding(
            Level.WARNING,
            "unread",
            f"nobody is known to read {named(entry.partition for entry in nobodys)} now: "
            f"nothing is committed for {lag_text(lasting)}, {records(lag_of(nobodys))} unread",
        )
    new = [entry for entry in behind if entry.trend is Trend.UNKNOWN and entry.progress != 0]
    if new:
        yield Finding(
            Level.NOTE,
            "lag-new",
            f"the lag of {where_lag(new)} has no trend yet: offsets are committed only since the watch began",
        )


def lag_of(entries: Iterable[PartitionFacts]) -> int:
    return sum(entry.lag for entry in entries)


def lag_in(facts: GroupFacts, partitions: Collection[TopicPartition]) -> str:
    """Return the lag in some partitions as the end of a message, nothing without lag."""
    lag = lag_of(entry for entry in facts.partitions if entry.partition in partitions)
    return f": {records(lag)} unread" if lag else ""


def where_lag(entries: Sequence[PartitionFacts]) -> str:
    return f"{named(entry.partition for entry in entries)}, {records(lag_of(entries))},"


def rates(entries: Iterable[PartitionFacts], apart_ms: int) -> str:
    """Return how many records came in, and how many were read, a second."""
    pairs = [(entry.written or 0, max(0, entry.progress or 0)) for entry in entries]
    written, read = (sum(counts) * 1000 / apart_ms for counts in zip(*pairs, strict=True))
    return f"{rate_text(written)} records/s come in, {rate_text(read)}/s are read"


def growing_hint(facts: GroupFacts, grows: Iterable[PartitionFacts]) -> str | None:
    """Return what helps: another member can take a partition only from one that has several."""
    grows = [entry for entry in grows if entry.owner]
    if not grows:
        return None
    owned = Counter(entry.owner for entry in facts.partitions if entry.owner)
    if any(owned[entry.owner or ""] > 1 for entry in grows):
        return "their members read several partitions: another member would take some of them"
    return "each is all that its member reads: only more partitions, or quicker work, help"


def rate_text(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


RESTLESS_WINDOW_MS = 10 * MINUTE_MS
RESTLESS_GENERATIONS = 5
"""So many generations within the window are more than a deployment causes."""

Rule = Callable[[GroupFacts], Iterator[Finding]]


def explain(facts: GroupFacts) -> list[Finding]:
    """Return the findings of all rules, problems first; a group without any is fine."""
    found = [finding for rule in RULES for finding in rule(facts)]
    if all(finding.code == "last-change" for finding in found):
        lag = sum(partition.lag for partition in facts.partitions)
        well = "every member reads, and there is no lag" if not lag else f"nothing stands out; lag {lag}"
        found.append(Finding(Level.FINE, "fine", well))
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def empty(facts: GroupFacts) -> Iterator[Finding]:
    """Tell since when the group is empty, and which members were the last."""
    if facts.head.state != "Empty":
        return
    waiting = sum(partition.lag for partition in facts.partitions)
    unread = f"; unread: {records(waiting)}" if waiting else ""
    last = next((event for event in reversed(facts.generations) if event.members), None)
    emptied = facts.generations[-1] if facts.generations else None
    if last is None or emptied is None or emptied.members:
        if facts.history_error is None and last is None:
            yield Finding(
                Level.NOTE,
                "never-joined",
                f"no member has ever been recorded: offsets were committed from outside of the group{unread}",
                "a consumer that assigns partitions itself commits like this, and tools do",
            )
        else:
            yield Finding(Level.NOTE, "empty", f"no members{unread}", "start a consumer with this group.id")
        return
    names = listed(f"`{member.client_id}` at {member.host.lstrip('/')}" for member in last.members)
    since = f"{moment_text(emptied.at_ms)}, {ago(emptied.at_ms, facts.now_ms)}"
    yield Finding(
        Level.WARNING if waiting else Level.NOTE,
        "empty",
        f"no members since {since}: the last {'was' if len(last.members) == 1 else 'were'} {names}{unread}",
        "start a consumer with this group.id; the offsets of an empty group expire",
    )
    yield from commits_from_outside(facts, emptied.at_ms)


def commits_from_outside(facts: GroupFacts, since_ms: int) -> Iterator[Finding]:
    """Tell that offsets are committed although the group is empty."""
    latest = max((partition.last_commit_ms or 0 for partition in facts.partitions), default=0)
    if latest > max(since_ms, facts.now_ms - MINUTE_MS):
        yield Finding(
            Level.NOTE,
            "commits-from-outside",
            f"the last offset was committed {ago(latest, facts.now_ms)}, after the members were gone",
            "a consumer that assigns partitions itself uses this group.id",
        )


def rebalancing(facts: GroupFacts) -> Iterator[Finding]:
    """Tell what a rebalancing group waits for."""
    state, still = facts.head.state, ""
    level = Level.WARNING
    if facts.apart_ms and facts.earlier_state == state:
        still = f" (for {lag_text(facts.apart_ms)} at least)"
    match state:
        case "PreparingRebalance":
            yield Finding(
                level,
                "waits-for-joins",
                f"rebalancing: the coordinator waits until {awaited(facts)} joined again{still}",
                "a consumer joins in its next poll, and has max.poll.interval.ms for that",
            )
        case "CompletingRebalance":
            yield Finding(
                level,
                "waits-for-leader",
                f"rebalancing: all members have joined, their leader must divide the partitions now{still}",
                "a leader that hangs or has died is removed after its session.timeout.ms",
            )
        case "Assigning":
            yield Finding(
                level,
                "waits-for-assignment",
                f"the coordinator still computes the assignment of epoch {facts.head.group_epoch}{still}",
            )
        case "Reconciling":
            yield from reconciling(facts, still)


def awaited(facts: GroupFacts) -> str:
    """Return whom a classic group waits for: a member that its latest generation lacks has just joined."""
    latest = facts.generations[-1].members if facts.generations else ()
    earlier = {member.member_id for member in latest}
    names = [member.name() for member in facts.members if member.member_id in earlier]
    if not names:
        return "every member has"
    return f"{names[0]} has" if len(names) == 1 else f"all of {listed(names)} have"


def reconciling(facts: GroupFacts, still: str) -> Iterator[Finding]:
    """Find members that must give up partitions, and those that wait for them (KIP-848)."""
    for member in facts.members:
        target = member.target if member.target is not None else member.assignment
        extra, missing = member.assignment - target, target - member.assignment
        if extra:
            yield Finding(
                Level.WARNING,
                "has-to-give-up",
                f"{member.name()} still has to give up {named(extra)}{still}",
                "a consumer does that in its next poll, and has max.poll.interval.ms for that",
            )
        elif missing:
            holders = [other for other in facts.members if other.assignment & missing]
            held = f", which {listed(other.name() for other in holders)} still has" if holders else ""
            yield Finding(
                Level.NOTE, "waits-for-partitions", f"{member.name()} waits for {named(missing)}{held}"
            )
        elif member.epoch is not None and facts.head.group_epoch not in (None, member.epoch):
            yield Finding(
                Level.NOTE,
                "behind-epoch",
                f"{member.name()} is at epoch {member.epoch} of {facts.head.group_epoch}, "
                "its next heartbeat brings the new one",
            )


def restless(facts: GroupFacts) -> Iterator[Finding]:
    """Tell how often the group rebalanced recently, and which clients came and went."""
    since = facts.now_ms - RESTLESS_WINDOW_MS
    recent = [event for event in facts.generations if event.number and event.at_ms >= since]
    if len(recent) < RESTLESS_GENERATIONS:
        yield from last_change(facts)
        return
    ids: dict[str, set[str]] = {}
    most: Counter[str] = Counter()
    for event in recent:
        together = Counter(member.client_id for member in event.members)
        most |= together
        for member in event.members:
            ids.setdefault(member.client_id, set()).add(member.member_id)
    newcomers = {client: len(members) - most[client] for client, members in ids.items()}
    span = lag_text(facts.now_ms - recent[0].at_ms)
    who = [client for client, count in sorted(newcomers.items(), key=lambda item: -item[1]) if count > 0]
    silent, gone = departures(facts, recent)
    if silent:
        reason = f"{listed(silent)} committed nothing for a session timeout, then was gone"
        hint = "most likely it was evicted: it hung, was stopped, or lost its connection"
    elif who:
        returns = listed(f"`{client}` {counted(newcomers[client], 'time')}" for client in who[:3])
        reason = f"members came back under new ids, {returns}"
        hint = "they restart, or their sessions time out; group.instance.id lets a restart pass unnoticed"
    elif gone:
        reason = f"{listed(gone)} left or was removed"
        hint = "a member that sends no heartbeat for its session.timeout.ms is removed"
    else:
        reason = "by the same members"
        hint = "they poll later than max.poll.interval.ms allows, or their subscriptions change"
    yield Finding(
        Level.WARNING, "rebalances-often", f"{len(recent)} rebalances within {span}: {reason}", hint
    )


def departures(facts: GroupFacts, events: Sequence[GenerationEvent]) -> tuple[list[str], list[str]]:
    """Return the members that one generation has and the next lacks: the silent ones, and the others.

    A silent one neither joined nor committed for its session timeout before it was gone, although others of
    the group did: a consumer that leaves commits first. Only classic groups tell timeouts and assignments.
    """
    silent: dict[str, None] = {}
    others: dict[str, None] = {}
    for before, after in pairwise(events):
        staying = {member.member_id for member in after.members}
        missing = [member for member in before.members if staying and member.member_id not in staying]
        if not missing:
            continue
        commits = [
            commit
            for commit in facts.commits
            if before.at_ms <= commit.at_ms <= after.at_ms and commit.offset is not None
        ]
        for member in missing:
            own = [each for each in commits if each.partition in member.assignment.get(each.topic, ())]
            heard = max([before.at_ms, *(each.at_ms for each in own)])
            timeout = member.session_timeout_ms
            is_silent = timeout is not None and after.at_ms - heard >= timeout and len(own) < len(commits)
            name = f"`{member.instance_id or member.client_id}` at {member.host.lstrip('/')}"
            (silent if is_silent else others)[name] = None
    return [*silent], [*others]


def last_change(facts: GroupFacts) -> Iterator[Finding]:
    """Tell what the latest rebalance changed, if it was recent, or what has changed before this one."""
    known = [event for event in facts.generations if event.number]
    if facts.head.state in ("PreparingRebalance", "CompletingRebalance"):
        present = {member.member_id for member in facts.members}
        left = names_of(known[-1], without=present) if known else []
        if left:
            yield Finding(Level.WARNING, "member-gone", gone_text(left), GONE_HINT)
        return
    if len(known) < 2 or not known[-1].members or known[-1].at_ms < facts.now_ms - RESTLESS_WINDOW_MS:
        return
    before, after = known[-2:]
    joined = names_of(after, without={member.member_id for member in before.members})
    left = names_of(before, without={member.member_id for member in after.members})
    changes = [f"{listed(joined)} joined"] if joined else []
    if left:
        changes.append(gone_text(left))
    what = "the current rebalance began" if facts.head.state != "Stable" else "the latest rebalance was"
    message = f"{what} {ago(after.at_ms, facts.now_ms)}: " + (
        "; ".join(changes) or "the members stayed the same"
    )
    grown = lag_growth(facts)
    silent, _ = departures(facts, [before, after])
    if left and (grown > 0 or silent):
        if silent:
            who = "it" if len(left) == 1 else listed(silent)
            message += f"; {who} had committed nothing for a session timeout"
        if grown > 0:
            message += f"; the lag has grown by {records(grown)} in the last {lag_text(facts.apart_ms)}"
        yield Finding(Level.WARNING, "member-gone", message, GONE_HINT)
    else:
        yield Finding(Level.NOTE, "last-change", message)


GONE_HINT = (
    "a member that sends no heartbeat for its session.timeout.ms is removed: see whether it still runs"
)


def gone_text(names: Sequence[str]) -> str:
    """Tell that members are gone. Neither records nor descriptions tell why."""
    if len(names) == 1:
        return f"{names[0]} is gone: it left or its session ended"
    return f"{listed(names)} are gone: they left or their sessions ended"


def lag_growth(facts: GroupFacts) -> int:
    """Return by how many records the lag of all partitions has grown between the first and last snapshot."""
    pairs = [(entry.before.lag(), entry.now.lag()) for entry in facts.partitions if entry.before is not None]
    return sum(now - before for before, now in pairs if before is not None and now is not None)


def names_of(event: GenerationEvent, *, without: Collection[str]) -> list[str]:
    """Return the members of a generation but those with the ids `without`."""
    return [
        f"`{member.instance_id or member.client_id}` at {member.host.lstrip('/')}"
        for member in event.members
        if member.member_id not in without
    ]


def migrating(facts: GroupFacts) -> Iterator[Finding]:
    """Tell that the group has members of both protocols (KIP-848)."""
    classic = [member for member in facts.members if member.upgraded is False]
    if classic and len(classic) < len(facts.members):
        names = listed(member.name() for member in classic)
        yield Finding(
            Level.NOTE, "migrating", f"{names} still use{'s' * (len(classic) == 1)} the classic protocol"
        )


def idle_members(facts: GroupFacts) -> Iterator[Finding]:
    """Find members without partitions."""
    idle = [member for member in facts.members if not member.assignment]
    if facts.head.state != "Stable" or not idle:
        return
    names = listed(member.name() for member in idle)
    total = sum(count or 0 for count in facts.topics.values())
    if facts.topics and len(facts.members) > total:
        yield Finding(
            Level.NOTE,
            "more-members-than-partitions",
            f"{counted(len(facts.members), 'member')} for {counted(total, 'partition')}, none for {names}",
            "they take over when another member leaves; more partitions would give them work",
        )
    else:
        yield Finding(
            Level.WARNING,
            "idle-member",
            f"no partitions for {names}",
            "they subscribe to other topics, or the assignor divides each topic by itself as `range` does",
        )


def missing_topics(facts: GroupFacts) -> Iterator[Finding]:
    missing = sorted(topic for topic, count in facts.topics.items() if count is None)
    if missing:
        names = listed(f"`{topic}`" for topic in missing)
        yield Finding(
            Level.WARNING,
            "missing-topic",
            f"members subscribe to {names}, which {'do' if len(missing) > 1 else 'does'} not exist",
            "`kcli topics list` shows the topics there are",
        )


def unowned_partitions(facts: GroupFacts) -> Iterator[Finding]:
    """Find partitions that no member reads, of topics that the group reads and of others."""
    if facts.head.state != "Stable" or not facts.members:
        return
    owned = {partition for member in facts.members for partition in member.assignment}
    every = {
        TopicPartition(topic, index) for topic, count in facts.topics.items() for index in range(count or 0)
    }
    if every - owned:
        yield Finding(
            Level.PROBLEM,
            "unowned-partition",
            f"no member reads {named(every - owned)}{lag_in(facts, every - owned)}",
            "an assignment that was made before partitions were added, or an assignor that leaves some out",
        )
    left = {entry.partition for entry in facts.partitions} - owned - every
    if facts.topics and left:
        yield Finding(
            Level.NOTE,
            "left-over-offsets",
            f"offsets of {named(left)} are committed, and no member subscribes to that any more"
            f"{lag_in(facts, left)}",
            "`kcli consumer-groups delete-offsets` removes them",
        )


RULES: tuple[Rule, ...] = (
    held_by_transaction,
    stuck,
    empty,
    rebalancing,
    restless,
    migrating,
    idle_members,
    missing_topics,
    unowned_partitions,
    out_of_range,
    never_committed,
    unread,
    lag_trend,
)
