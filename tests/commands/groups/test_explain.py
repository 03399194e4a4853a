"""Explanations of groups: a table of facts and findings; the texts are in a golden file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kcli.commands.groups.explain_rules import explain
from kcli.commands.groups.findings import (
    GroupFacts,
    MemberFacts,
    OffsetSnapshot,
    OpenTransaction,
    PartitionFacts,
)
from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import CommitEvent, GenerationEvent, PastMember
from kcli.protocol.topics import TopicPartition

NOW = 1_700_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND

ONE = MemberFacts("one-1", "one", "/10.0.0.1", frozenset({("orders", 0), ("orders", 1)}), topics=("orders",))
TWO = MemberFacts("two-2", "two", "/10.0.0.2", frozenset({("orders", 2)}), topics=("orders",))


def entry(
    partition: int,
    committed: int | None,
    end: int,
    *,
    before: OffsetSnapshot | None = None,
    owner: str | None = "one-1",
    start: int = 0,
    last_commit_ms: int | None = None,
    topic: str = "orders",
) -> PartitionFacts:
    """A partition in four snapshots at even steps, which are equal unless `before`, the first, is given."""
    now = OffsetSnapshot(committed, end)
    first = before or now
    between = tuple(
        OffsetSnapshot(
            None
            if committed is None or first.committed is None
            else between_of(first.committed, committed, step),
            None if first.end is None else between_of(first.end, end, step),
        )
        for step in (1, 2)
    )
    return PartitionFacts((topic, partition), owner, now, first, start, last_commit_ms, between)


def between_of(first: int | None, last: int | None, step: int) -> int | None:
    """Return the value after `step` of three steps, None if one of them is unknown."""
    return None if first is None or last is None else first + (last - first) * step // 3


def group(
    state: str = "Stable",
    members: Sequence[MemberFacts] = (ONE, TWO),
    partitions: Sequence[PartitionFacts] = (),
    *,
    type: str = "Classic",
    epoch: int | None = None,
    topics: dict[str, int | None] | None = None,
    generations: Sequence[GenerationEvent] = (),
    earlier_state: str | None = None,
    history_error: str | None = None,
    commits: Sequence[CommitEvent] = (),
) -> GroupFacts:
    """A group in four snapshots within fifteen seconds."""
    head = GroupHead("billing", type, state, None, "range", epoch, epoch, len(members))
    return GroupFacts(
        head,
        NOW,
        members,
        partitions,
        {"orders": 3} if topics is None else topics,
        generations,
        15 * SECOND,
        earlier_state or state,
        history_error,
        commits,
    )


def generation(number: int, at_ms: int, *clients: str) -> GenerationEvent:
    """A generation; `one/7` is the seventh member id of client `one`."""
    members = tuple(PastMember(client, None, client.partition("/")[0], "/10.0.0.1") for client in clients)
    return GenerationEvent(at_ms, number, "range", None, members)


HEALTHY = [entry(0, 90, 90), entry(1, 50, 50), entry(2, 7, 7, owner="two-2")]
EMPTIED = (generation(4, NOW - 9 * MINUTE, "one", "two"), generation(5, NOW - 5 * MINUTE))

EVICTION = [
    GenerationEvent(
        NOW - ago * SECOND,
        number,
        "range",
        None,
        tuple(
            PastMember(f"{name}-1", None, name, "/10.0.0.1", ("orders",), {"orders": owned}, 45 * SECOND)
            for name, owned in members.items()
        ),
    )
    for number, (ago, members) in enumerate(
        [
            (300, {"one": (0, 1, 2)}),
            (290, {"one": (0, 1), "two": (2,)}),
            (280, {"one": (0, 1), "two": (2,)}),
            (270, {"one": (0, 1), "two": (2,)}),
            (150, {"one": (0, 1, 2)}),
        ],
        1,
    )
]
"""The second member committed last 200 s ago, and is gone 50 s later."""

TABLE: dict[str, tuple[GroupFacts, list[str]]] = {
    "all is well": (group(partitions=HEALTHY), ["fine fine"]),
    "records come and are read": (
        group(partitions=[entry(0, 190, 190, before=OffsetSnapshot(90, 90)), *HEALTHY[1:]]),
        ["fine caught-up"],
    ),
    "nobody was ever in the group": (
        group("Empty", (), [entry(0, 5, 9, owner=None)]),
        ["note never-joined"],
    ),
    "members have gone and nothing waits": (
        group("Empty", (), [entry(0, 9, 9, owner=None)], generations=EMPTIED),
        ["note empty"],
    ),
    "members have gone and records wait": (
        group("Empty", (), [entry(0, 5, 9, owner=None)], generations=EMPTIED),
        ["warning empty"],
    ),
    "members have gone and somebody commits": (
        group("Empty", (), [entry(0, 5, 9, owner=None, last_commit_ms=NOW - SECOND)], generations=EMPTIED),
        ["warning empty", "note commits-from-outside"],
    ),
    "empty, and the history cannot be read": (
        group("Empty", (), history_error="not authorized"),
        ["note empty"],
    ),
    "members are to join again": (group("PreparingRebalance"), ["warning waits-for-joins"]),
    "the leader is to assign": (
        group("CompletingRebalance", earlier_state="PreparingRebalance"),
        ["warning waits-for-leader"],
    ),
    "the coordinator is to assign": (group("Assigning", epoch=7), ["warning waits-for-assignment"]),
    "a member keeps what another one waits for": (
        group(
            "Reconciling",
            (
                replace(ONE, target=frozenset({("orders", 0)}), epoch=7),
                replace(TWO, target=frozenset({("orders", 1), ("orders", 2)}), epoch=8),
                MemberFacts("three-3", "three", "/10.0.0.3", frozenset(), target=frozenset(), epoch=7),
            ),
            type="Consumer",
            epoch=8,
        ),
        ["warning has-to-give-up", "note waits-for-partitions", "note behind-epoch"],
    ),
    "one client comes back again and again": (
        group(
            partitions=HEALTHY,
            generations=[
                generation(n, NOW - (20 - n) * 10 * SECOND, "two/1", f"one/{n}") for n in range(1, 9)
            ],
        ),
        ["warning rebalances-often"],
    ),
    "the same members rebalance again and again": (
        group(
            partitions=HEALTHY,
            generations=[generation(n, NOW - (20 - n) * 10 * SECOND, "two/1", "one/1") for n in range(1, 9)],
        ),
        ["warning rebalances-often"],
    ),
    "a member has come and another one gone": (
        group(
            partitions=HEALTHY,
            generations=[
                generation(3, NOW - 50 * MINUTE, "one/1", "two/1"),
                generation(4, NOW - 2 * MINUTE, "one/1", "three/1"),
            ],
        ),
        ["note last-change", "fine fine"],
    ),
    "a rebalance without a change": (
        group(
            partitions=HEALTHY,
            generations=[generation(n, NOW - (9 - n) * MINUTE, "one/1") for n in (3, 4)],
        ),
        ["note last-change", "fine fine"],
    ),
    "a deployment long ago": (
        group(
            partitions=HEALTHY,
            generations=[generation(n, NOW - 60 * MINUTE, f"one/{n}") for n in range(1, 20)],
        ),
        ["fine fine"],
    ),
    "more members than partitions": (
        group(
            members=(
                MemberFacts("one-1", "one", "/10.0.0.1", frozenset({("orders", 0)}), "static-one"),
                MemberFacts("two-2", "two", "/10.0.0.2", frozenset()),
            ),
            topics={"orders": 1},
        ),
        ["note more-members-than-partitions"],
    ),
    "a member has nothing although there is enough": (
        group(
            members=(
                replace(ONE, assignment=ONE.assignment | TWO.assignment),
                replace(TWO, assignment=frozenset()),
            )
        ),
        ["warning idle-member"],
    ),
    "members wait for a topic": (
        group(partitions=HEALTHY, topics={"orders": 3, "not.there": None}),
        ["warning missing-topic"],
    ),
    "partitions of nobody": (group(members=(ONE,), topics={"orders": 5}), ["problem unowned-partition"]),
    "offsets of a topic that nobody reads any more": (
        group(partitions=[*HEALTHY, entry(0, 3, 9, owner=None, topic="old")]),
        ["note left-over-offsets"],
    ),
    "both protocols": (
        group(members=(replace(ONE, upgraded=False), replace(TWO, upgraded=True)), partitions=HEALTHY),
        ["note migrating"],
    ),
    "records were deleted unread": (
        group(partitions=[entry(0, 5, 30, start=10, before=OffsetSnapshot(4, 30)), *HEALTHY[1:]]),
        ["problem below-log-start", "note lag-shrinks"],
    ),
    "the topic was created anew": (
        group(partitions=[entry(0, 90, 3), *HEALTHY[1:]]),
        ["problem beyond-log-end"],
    ),
    "nothing was committed yet": (
        group(partitions=[entry(0, None, 9), *HEALTHY[1:]]),
        ["warning never-committed"],
    ),
    "a member hangs while the other one reads": (
        group(
            partitions=[
                entry(0, 10, 90, before=OffsetSnapshot(10, 80), last_commit_ms=NOW - 5 * MINUTE),
                entry(1, 10, 40, last_commit_ms=NOW - 6 * MINUTE),
                entry(2, 70, 70, before=OffsetSnapshot(60, 60), owner="two-2", last_commit_ms=NOW),
            ]
        ),
        ["problem stopped-committing"],
    ),
    "a member has been silent for some seconds": (
        group(partitions=[entry(0, 10, 90), entry(1, 50, 50), HEALTHY[2]]),
        ["warning stopped-committing"],
    ),
    "one of two members is stopped, the other one catches up": (
        group(
            "Stable",
            (replace(ONE, session_timeout_ms=45 * SECOND), replace(TWO, session_timeout_ms=45 * SECOND)),
            [
                entry(0, 500, 530, before=OffsetSnapshot(100, 500), last_commit_ms=NOW - SECOND),
                entry(1, 500, 530, before=OffsetSnapshot(100, 500), last_commit_ms=NOW - SECOND),
                entry(
                    2, 10, 90, before=OffsetSnapshot(10, 50), owner="two-2", last_commit_ms=NOW - 44 * SECOND
                ),
            ],
        ),
        ["problem stopped-committing", "note lag-shrinks"],
    ),
    "a member is silent for longer than its session": (
        group(
            "Stable",
            (ONE, replace(TWO, session_timeout_ms=45 * SECOND)),
            [*HEALTHY[:2], entry(2, 10, 90, owner="two-2", last_commit_ms=NOW - 46 * SECOND)],
        ),
        ["problem stopped-committing"],
    ),
    "members of one partition each fall behind": (
        group(
            "Stable",
            (
                replace(ONE, assignment=frozenset({("orders", 0)})),
                replace(TWO, assignment=frozenset({("orders", 1)})),
            ),
            [
                entry(0, 110, 900, before=OffsetSnapshot(100, 400)),
                entry(1, 60, 95, before=OffsetSnapshot(0, 5), owner="two-2"),
            ],
            topics={"orders": 2},
        ),
        ["warning lag-grows", "note lag-stays"],
    ),
    "between two commits the lag grows": (
        group(
            partitions=[
                PartitionFacts(
                    TopicPartition("orders", 0),
                    "one-1",
                    OffsetSnapshot(150, 165),
                    OffsetSnapshot(0, 0),
                    between=(OffsetSnapshot(50, 55), OffsetSnapshot(100, 110)),
                )
            ]
        ),
        ["note lag-stays"],
    ),
    "a member was evicted": (
        group(
            members=(replace(ONE, assignment=ONE.assignment | TWO.assignment),),
            partitions=[*HEALTHY[:2], entry(2, 7, 7)],
            generations=EVICTION,
            commits=[
                *(
                    CommitEvent(NOW - second * SECOND, "orders", 0, 90 - second)
                    for second in range(5, 300, 5)
                ),
                CommitEvent(NOW - 200 * SECOND, "orders", 2, 7),
            ],
        ),
        ["warning rebalances-often"],
    ),
    "the same offset is committed again and again": (
        group(partitions=[entry(0, 10, 90, last_commit_ms=NOW - SECOND), *HEALTHY[1:]]),
        ["warning commits-the-same"],
    ),
    "one partition is stuck": (
        group(
            partitions=[
                entry(0, 10, 90, last_commit_ms=NOW - 5 * MINUTE),
                entry(1, 50, 60, before=OffsetSnapshot(40, 50)),
                HEALTHY[2],
            ]
        ),
        ["problem stuck-partition", "note lag-stays"],
    ),
    "a silent member is gone": (
        group(
            partitions=HEALTHY,
            generations=EVICTION[-2:],
            commits=[
                CommitEvent(NOW - ago * SECOND, "orders", 2 if ago == 260 else 0, 1)
                for ago in (260, 240, 200, 160)
            ],
        ),
        ["warning member-gone"],
    ),
    "a member is gone and the lag grows": (
        group(
            partitions=[entry(0, 50, 100, before=OffsetSnapshot(20, 40)), *HEALTHY[1:]],
            generations=[
                generation(3, NOW - 50 * MINUTE, "one/1", "two/1"),
                generation(4, NOW - 8 * SECOND, "one/1"),
            ],
        ),
        ["warning member-gone", "warning lag-grows"],
    ),
    "a member is gone and the other one hangs": (
        group(
            "PreparingRebalance",
            (replace(ONE, assignment=frozenset()),),
            [
                entry(0, 10, 60, owner=None, last_commit_ms=NOW - 20 * SECOND),
                entry(1, 50, 110, owner=None, before=OffsetSnapshot(40, 50)),
                entry(2, 7, 11, owner=None, last_commit_ms=NOW - 30 * SECOND),
            ],
            generations=[generation(3, NOW - 2 * MINUTE, "one-1", "two-2")],
        ),
        ["warning waits-for-joins", "warning member-gone", "warning unread", "warning lag-grows"],
    ),
    "two members have yet to join, a third one has": (
        group(
            "PreparingRebalance",
            (ONE, TWO, MemberFacts("three-3", "three", "/10.0.0.3", frozenset())),
            generations=[generation(3, NOW - 2 * MINUTE, "one-1", "two-2")],
        ),
        ["warning waits-for-joins"],
    ),
    "a stuck member has taken over a partition": (
        group(
            members=(replace(ONE, assignment=ONE.assignment | TWO.assignment),),
            partitions=[
                entry(0, 10, 60, last_commit_ms=NOW - MINUTE),
                entry(1, 50, 90, last_commit_ms=NOW - MINUTE),
                replace(entry(2, 40, 60, before=OffsetSnapshot(30, 40)), has_moved=True),
            ],
        ),
        ["problem stopped-committing", "warning lag-grows"],
    ),
    "a partition that the group has begun while it was watched": (
        group(partitions=[entry(0, 5, 9, before=OffsetSnapshot(None, 9)), *HEALTHY[1:]]),
        ["note lag-new"],
    ),
    "an open transaction keeps its readers waiting": (
        group(
            partitions=[
                replace(
                    entry(0, 10, 90, before=OffsetSnapshot(10, 80), last_commit_ms=NOW - 5 * MINUTE),
                    held=OpenTransaction(10, 10, 4000, NOW - 5 * MINUTE),
                ),
                *HEALTHY[1:],
            ]
        ),
        ["problem open-transaction"],
    ),
    "the first record is one of an open transaction": (
        group(
            partitions=[
                replace(entry(0, None, 9, start=3), held=OpenTransaction(3, 3, 4000, NOW - 5 * MINUTE)),
                *HEALTHY[1:],
            ]
        ),
        ["problem open-transaction"],
    ),
    "a transaction at which readers wait is young": (
        group(
            partitions=[
                replace(entry(0, 10, 90), held=OpenTransaction(10, 10, 4000, NOW - 20 * SECOND)),
                *HEALTHY[1:],
            ]
        ),
        ["warning open-transaction"],
    ),
    "a member hangs before it comes to an open transaction": (
        group(
            partitions=[
                replace(
                    entry(0, 10, 90, last_commit_ms=NOW - 5 * MINUTE),
                    held=OpenTransaction(50, 50, 4000, NOW - 5 * MINUTE),
                ),
                *HEALTHY[1:],
            ]
        ),
        ["problem stopped-committing", "note open-transaction-ahead"],
    ),
    "a group that reads uncommitted records is past an open transaction": (
        group(
            partitions=[
                replace(
                    entry(0, 40, 90, last_commit_ms=NOW - 5 * MINUTE),
                    held=OpenTransaction(10, 10, 4000, NOW - 5 * MINUTE),
                ),
                *HEALTHY[1:],
            ]
        ),
        ["problem stopped-committing"],
    ),
    "an open transaction that nobody waits for": (
        group(
            partitions=[
                replace(
                    entry(0, 40, 90, before=OffsetSnapshot(10, 60)), held=OpenTransaction(50, 50, 4000, -1)
                ),
                *HEALTHY[1:],
            ]
        ),
        ["note lag-stays"],
    ),
    "the lag grows": (
        group(partitions=[entry(0, 110, 900, before=OffsetSnapshot(100, 400)), *HEALTHY[1:]]),
        ["warning lag-grows"],
    ),
    "the lag shrinks": (
        group(partitions=[entry(0, 500, 1000, before=OffsetSnapshot(100, 900)), *HEALTHY[1:]]),
        ["note lag-shrinks"],
    ),
}


@pytest.mark.parametrize(("facts", "expected"), TABLE.values(), ids=TABLE)
def test_findings(facts: GroupFacts, expected: list[str]) -> None:
    assert [f"{finding.level} {finding.code}" for finding in explain(facts)] == expected


def test_the_words(golden: Callable[[str, str], None]) -> None:
    """The texts of every case of the table; a message is one line without a full stop."""
    lines = []
    for name, (facts, _) in TABLE.items():
        lines.append(f"# {name}")
        for finding in explain(facts):
            assert "\n" not in finding.message
            assert not finding.message.endswith(".")
            lines.append(f"{finding.level}: {finding.message}")
            lines += [f"  hint: {finding.hint}"] if finding.hint else []
        lines.append("")
    golden("cli/consumer_groups_findings.txt", "\n".join(lines))


@pytest.mark.parametrize(
    "name",
    [
        "a member is gone and the other one hangs",
        "a stuck member has taken over a partition",
        "a partition that the group has begun while it was watched",
        "offsets of a topic that nobody reads any more",
    ],
)
def test_every_record_of_the_lag_is_in_a_finding(name: str) -> None:
    facts, _ = TABLE[name]
    told = [
        int(count)
        for finding in explain(facts)
        for count in re.findall(r"(\d+) records?(?: unread|,|\b(?= of))", finding.message)
    ]
    assert sum(told) == sum(each.lag for each in facts.partitions)


def test_a_group_that_was_looked_at_once_has_no_trend() -> None:
    facts = replace(group(partitions=[entry(0, 10, 90), *HEALTHY[1:]]), apart_ms=0)
    assert [finding.code for finding in explain(facts)] == ["fine"]
