"""`kcli consumer-groups` and Apache Kafka's own tool, side by side, against Apache Kafka and against kcli.

Both tools look at the same groups: one of the classic protocol with a static member, one of the consumer
protocol, one with more members than partitions, and some without members.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from tests.support.compared_groups import (
    CLASSIC,
    CLICKS,
    COMMITTED,
    EMPTY,
    LONG,
    MANY,
    MINUTE_MS,
    MODERN,
    ORDERS,
    OTHER,
    START_MS,
    Both,
    commit,
    committed,
    settled_groups,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Finished
    from tests.support.apache_kafka import ApacheKafka, KafkaTools
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=["apache_kafka", "kcli_broker"])
def populated(request: pytest.FixtureRequest) -> Iterator[KcliBroker | ApacheKafka]:
    """Each of the two brokers with topics and groups."""
    broker: KcliBroker | ApacheKafka = request.getfixturevalue(request.param)
    with settled_groups(broker.bootstrap, request.getfixturevalue("kafka_tool")):
        yield broker


@pytest.fixture
def both(populated: KcliBroker | ApacheKafka, kcli: Callable[..., Finished], kafka_tool: KafkaTools) -> Both:
    return Both(populated, kcli, kafka_tool)


# --- what there is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--state",),
        ("--type",),
        ("--state", "--type"),
        ("--state", "stable,Empty"),
        ("--type", "classic", "--state", "empty"),
        ("--type", "consumer"),
    ],
    ids=" ".join,
)
def test_list_is_the_original_text(both: Both, options: Sequence[str]) -> None:
    both.same("list", *options)


@pytest.mark.parametrize("verbose", [(), ("--verbose",)], ids=["", "verbose"])
@pytest.mark.parametrize("view", [(), ("--offsets",), ("--members",), ("--state",)], ids=" ".join)
@pytest.mark.parametrize(
    "groups", [(CLASSIC,), (MODERN,), (MANY,), (EMPTY,), (OTHER, CLASSIC, EMPTY)], ids=" ".join
)
def test_describe_is_the_original_text(
    both: Both, groups: Sequence[str], view: Sequence[str], verbose: Sequence[str]
) -> None:
    named = [word for group in groups for word in ("--group", group)]
    text = both.same("describe", *named, *view, *verbose)
    # A group without members has no line in this view.
    assert all(group in text for group in groups if "--members" not in view or group not in (EMPTY, OTHER))


@pytest.mark.parametrize("view", [(), ("--members", "--verbose"), ("--state",)], ids=" ".join)
def test_all_groups_are_the_original_text(both: Both, view: Sequence[str]) -> None:
    both.same("describe", "--all-groups", *view)


def test_an_unknown_group_is_an_error(both: Both) -> None:
    assert "GroupIdNotFoundException" in both.theirs("describe", "--group", "tool-nothing")[0]
    for view in ((), ("--members",), ("--state",), ("--total-lag",), ("--explain",), ("--history",)):
        ours = both.ours("describe", "tool-nothing", *view)
        assert (ours.exit_code, ours.out) == (1, "")
        assert ours.err.startswith("error: consumer group `tool-nothing` does not exist\n")


def test_json_tells_what_the_text_does_and_the_lag_as_a_whole(both: Both) -> None:
    document = json.loads(both.ours("describe", EMPTY, OTHER, "--time-lag", "-o", "json").out)
    assert [group["group"] for group in document["groups"]] == [EMPTY, OTHER]
    assert [group["total_lag"] for group in document["groups"]] == [90 + 67 + 35, 93]
    assert document["total_lag"] == 285
    lags = {
        (row["topic"], row["partition"]): row["time_lag_ms"] for row in document["groups"][0]["partitions"]
    }
    # The first unread orders are those of the minutes 30 and 101.
    assert lags[ORDERS, 0] - lags[ORDERS, 2] == 71 * MINUTE_MS
    assert lags[ORDERS, 0] > 270 * MINUTE_MS > lags[CLICKS, 0] > 0


def test_members_and_explanations(both: Both) -> None:
    document = json.loads(both.ours("members", MANY, "-o", "json").out)
    assert sorted(member["client_id"] for member in document["members"]) == [
        "client-e",
        "client-f",
        "client-g",
    ]
    findings = {
        group["group"]: [finding["code"] for finding in group["findings"]]
        for group in json.loads(
            both.ours("describe", MANY, EMPTY, CLASSIC, "--explain", "--interval", "1", "-o", "json").out
        )["groups"]
    }
    assert "more-members-than-partitions" in findings[MANY]
    assert findings[EMPTY] == ["never-joined"]
    assert findings[CLASSIC][-1] == "fine"


# --- without a broker ------------------------------------------------------------------------------


@pytest.mark.usefixtures("populated")
def test_the_files_of_the_broker_tell_the_same(both: Both) -> None:
    for group in (CLASSIC, MODERN, MANY, EMPTY):
        for view in ((), ("--verbose",), ("--members", "--verbose"), ("--total-lag",), ("--history",)):
            live = both.ours("describe", group, *view)
            files = both.from_files("describe", group, *view)
            # Coordinators keep members of the consumer protocol in the order of a hash table.
            assert sorted(files.out.splitlines()) == sorted(live.out.splitlines()), (group, view)
            assert (files.exit_code, files.err) == (live.exit_code, live.err) == (0, live.err)
    files, live = both.from_files("list", "--state"), both.ours("list", "--state")
    # A broker lists its groups in the order in which its coordinators happen to answer.
    assert sorted(files.out.splitlines()) == sorted(live.out.splitlines())
    assert (files.exit_code, files.err) == (live.exit_code, live.err) == (0, "")


# --- new offsets -----------------------------------------------------------------------------------

SCOPES = {
    "all topics": ("--all-topics",),
    "a topic": ("--topic", ORDERS),
    "topics": ("--topic", CLICKS, "--topic", ORDERS),
    "partitions": ("--topic", f"{ORDERS}:2,0", "--topic", CLICKS),
}
RESETS: list[tuple[str, ...]] = [
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "20"),
    ("--to-offset", "1000"),
    ("--to-offset", "-3"),
    ("--shift-by", "7"),
    ("--shift-by", "-20"),
    ("--shift-by", "500"),
    ("--to-datetime", "MIDDLE"),
    ("--to-datetime", "2100-01-01T00:00:00.000Z"),
    ("--by-duration", "SINCE MIDDLE"),
    ("--by-duration", "P100D"),
]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("reset", RESETS, ids=" ".join)
def test_every_reset_is_the_original_one(both: Both, reset: tuple[str, ...], scope: str) -> None:
    if reset[0] == "--shift-by" and scope != "all topics":
        reset_scope: tuple[str, ...] = ("--topic", f"{ORDERS}:0,2")
    else:
        reset_scope = SCOPES[scope]
    middle_ms = START_MS + 150 * MINUTE_MS + MINUTE_MS // 2
    moments = {
        "MIDDLE": time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(middle_ms / 1000)),
        "SINCE MIDDLE": f"PT{round(time.time() - middle_ms / 1000)}S",
    }
    words = ("--group", EMPTY, *(moments.get(word, word) for word in reset), *reset_scope)
    out, _ = both.theirs("reset-offsets", *words, "--dry-run")
    ours = both.ours("reset-offsets", *words, "--dry-run")
    assert (ours.exit_code, ours.out.strip().splitlines()) == (0, table_of(out))
    exported, _ = both.theirs("reset-offsets", *words, "--dry-run", "--export")
    assert both.ours("reset-offsets", *words, "--export").out.split() == [
        line for line in exported.split("\n") if line and not line.startswith("Warn:")
    ]


def table_of(text: str) -> list[str]:
    """The lines of the original without its warnings."""
    lines = text.splitlines()
    return lines[next(n for n, line in enumerate(lines) if line.startswith("GROUP")) :]


def test_both_tools_set_the_same_offsets(both: Both) -> None:
    bootstrap = both.broker.bootstrap
    names = ("tool-reset-ours", "tool-reset-theirs")
    for reset in (("--to-earliest",), ("--shift-by", "13"), ("--to-offset", "50"), ("--to-latest",)):
        for name in names:
            commit(bootstrap, name, COMMITTED)
        assert both.ours("reset-offsets", names[0], *reset, "--all-topics", "--execute").exit_code == 0
        both.theirs("reset-offsets", "--group", names[1], *reset, "--all-topics", "--execute")
        assert committed(bootstrap, names[0]) == committed(bootstrap, names[1]) != COMMITTED
    ours = both.ours("delete", *names)
    assert ours.exit_code == 0


def test_what_one_tool_exports_the_other_one_imports(both: Both, tmp_path: Path) -> None:
    bootstrap, path = both.broker.bootstrap, tmp_path / "offsets.csv"
    names = ("tool-import-one", "tool-import-two")
    offsets = {names[0]: COMMITTED, names[1]: {(ORDERS, 1): 3}}
    every = [word for name in names for word in ("--group", name)]
    for exporting, importing in ((both.theirs, both.ours), (both.ours, both.theirs)):
        for groups in (every, every[:2]):
            for name in names:
                commit(bootstrap, name, offsets[name])
            finished = exporting(
                "reset-offsets", *groups, "--to-current", "--all-topics", "--export", "--dry-run"
            )
            path.write_text(finished[1] if len(finished) == 3 else finished[0])
            both.ours("reset-offsets", *names, "--to-earliest", "--all-topics", "--execute")
            importing("reset-offsets", *groups, "--from-file", str(path), "--execute")
            assert committed(bootstrap, names[0]) == COMMITTED
    assert committed(bootstrap, names[1]) == {(ORDERS, 1): 0}
    both.theirs("delete", *every)


def test_a_group_with_members_is_refused(both: Both) -> None:
    out, _ = both.theirs("reset-offsets", "--group", CLASSIC, "--to-earliest", "--all-topics", "--execute")
    assert "is inactive" in out
    ours = both.ours("reset-offsets", CLASSIC, "--to-earliest", "--all-topics", "--execute")
    assert (ours.exit_code, ours.out.strip().splitlines()) == (1, table_of(out))
    assert "`tool-static`" in ours.err
    refused = both.ours("delete", CLASSIC)
    assert (refused.exit_code, refused.out) == (1, "")
    clone = both.ours("clone", EMPTY, CLASSIC, "--execute")
    assert clone.exit_code == 1


# --- deleting and removing -------------------------------------------------------------------------


def test_delete_is_the_original_text(both: Both) -> None:
    for name in ("tool-delete-one", "tool-delete-two"):
        commit(both.broker.bootstrap, name, COMMITTED)
    out, _ = both.theirs("delete", "--group", "tool-delete-one")
    ours = both.ours("delete", "tool-delete-two")
    assert (ours.exit_code, ours.out) == (0, out.replace("one", "two"))
    again = both.ours("delete", "tool-delete-two")
    assert (again.exit_code, again.out) == (1, "")


@pytest.mark.parametrize("topics", [(CLICKS,), (f"{ORDERS}:0,2", CLICKS), (LONG, ORDERS)], ids=" ".join)
def test_delete_offsets_is_the_original_text(both: Both, topics: Sequence[str]) -> None:
    named = [word for topic in topics for word in ("--topic", topic)]
    outputs = []
    for run in (both.theirs, lambda *words: both.ours(*words)[1:]):
        commit(both.broker.bootstrap, "tool-forget", COMMITTED)
        outputs.append(
            (
                run("delete-offsets", "--group", "tool-forget", *named)[0],
                committed(both.broker.bootstrap, "tool-forget"),
            )
        )
    assert outputs[0] == outputs[1]
    both.ours("delete", "tool-forget")


def test_offsets_of_a_topic_that_is_read_are_not_deleted(both: Both) -> None:
    out, _ = both.theirs("delete-offsets", "--group", CLASSIC, "--topic", f"{ORDERS}:1")
    assert "GroupSubscribedToTopicException" in out
    ours = both.ours("delete-offsets", CLASSIC, "--topic", f"{ORDERS}:1")
    assert ours.exit_code == 1
    assert "is consuming the topic" in ours.err


def test_a_clone_has_the_same_offsets(both: Both) -> None:
    assert both.ours("clone", EMPTY, "tool-clone").exit_code == 0
    assert committed(both.broker.bootstrap, "tool-clone") == {}
    assert both.ours("clone", EMPTY, "tool-clone", "--execute").exit_code == 0
    assert committed(both.broker.bootstrap, "tool-clone") == COMMITTED
    assert both.ours("clone", EMPTY, "tool-clone", "--execute").exit_code == 1
    assert both.ours("clone", EMPTY, "tool-clone", "--execute", "--force").exit_code == 0
    both.ours("delete", "tool-clone")


def test_members_are_removed(both: Both) -> None:
    """The last test of the file: what it removes comes back, under other ids."""
    before = json.loads(both.ours("members", MANY, "-o", "json").out)["members"]
    first = before[0]["consumer_id"]
    removed = both.ours("remove-members", MANY, "--member-id", first, "--reason", "tested")
    assert (removed.exit_code, removed.out) == (0, f"Removed member {first} from group {MANY}.\n")
    again = both.ours("remove-members", MANY, "--member-id", first)
    assert again.exit_code == 1
    everybody = both.ours("remove-members", MANY, "--all-members")
    assert everybody.exit_code == 0


@pytest.mark.parametrize(
    ("regex", "is_valid"),
    [
        ("orders-(eu|us)", True),
        ("", True),
        ("(?P<region>eu|us)-.*", True),
        ("((a{100}){100}){100}", True),
        ("log(", False),
        ("[log", False),
        ("*a", False),
        ("a**", False),
        ("a{1001}", False),
        ("[z-a]", False),
        (r"\p{Klingon}", False),
        ("(?=a)", False),
        ("(?P<n>a)(?P<n>b)", False),
        ("(?P<a-b>a)", False),
        (r"\8", False),
        ("a\\", False),
    ],
)
def test_validating_an_expression_says_the_original_line(
    kcli: Callable[..., Finished], kafka_tool: KafkaTools, regex: str, is_valid: bool
) -> None:
    theirs = kafka_tool("kafka-consumer-groups", "--validate-regex", regex)
    # An invalid one is a problem that was found, which the original does not tell by its exit code.
    ours = kcli("consumer-groups", "validate-regex", "--", regex)
    assert ours == (0 if is_valid else 3, theirs.output, "")
