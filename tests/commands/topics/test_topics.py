"""The verbs of `kcli topics`: their whole output in each format, errors and exit codes.

Lines of stderr are marked with `!` in the goldens.
"""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest

from kcli.client import admin
from kcli.commands.shared.confirmation import Confirmation
from kcli.errors import Interrupted, KcliError
from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import FakeCluster


def test_topics_create(cluster: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_create",
        "topics create orders --partitions 3 --replication-factor 2 --config retention.ms=60000",
        "topics create --topic clicks --replica-assignment 1:2,2:1 -o json",
        "topics create orders",
        "topics create orders --if-not-exists",
        "topics create a b a c --partitions 2",
        "topics create d orders -o json",
        "topics create ''",
        "topics create app.events_raw",
        "topics create app.events_raw2 --force",
        "topics create app.events.raw --force",
        "topics create 'a b'",
        "topics create big --replication-factor 3",
        "topics create bad --config retention.mz=1",
        "topics create bad --config no.such=1",
        "topics create bad --config retention.ms",
        "topics create bad --partitions 0",
        "topics create bad --partitions 2 --replica-assignment 1,2",
        "topics create bad --replica-assignment 1:1",
        "topics create bad --replica-assignment 1:2,1",
        "topics create bad --replica-assignment one",
        "topics create",
        "topics create orders --topic orders",
    )
    assert cluster.topics["orders"].assignments == [[1, 2]] * 3
    assert cluster.topics["orders"].configs == {"retention.ms": "60000"}
    assert cluster.topics["clicks"].assignments == [[1, 2], [2, 1]]


def test_topics_list(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_list",
        "topics list",
        "topics list --exclude-internal",
        "topics list -o table",
        "topics list orders -o table",
        "topics list nothing -o table",
        "topics list 'orders,cl.*'",
        "topics list --topic 'cl.*' -o json",
        "topics list nothing",
        "topics list '['",
    )


def test_topics_are_listed_where_brokers_refuse_to_tell_sizes(
    orders: FakeCluster, transcript: Transcript
) -> None:
    orders.silent_log_dirs = {2}
    transcript("topics_list_without_a_broker", "topics list -o table")
    orders.silent_log_dirs = {1, 2}
    transcript("topics_list_without_sizes", "topics list -o table", "topics list")


def test_topics_describe(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_describe",
        "topics describe orders",
        "topics describe orders -o table",
        "topics describe orders -o json",
        "topics describe --topic-id AgICAgICAgICAgICAgICAg",
        "topics describe --exclude-internal --topics-with-overrides",
        "topics describe --topics-with-overrides -o table",
        "topics describe --under-replicated-partitions",
        "topics describe --unavailable-partitions",
        "topics describe --under-min-isr-partitions -o table",
        "topics describe --at-min-isr-partitions",
        "topics describe --at-min-isr-partitions --unavailable-partitions",
        "topics describe nothing",
        "topics describe nothing --if-exists",
        "topics describe --topic-id AAAAAAAAAAAAAAAAAAAAAA",
        "topics describe orders --topic-id AAAAAAAAAAAAAAAAAAAAAA",
        "topics describe --topic-id orders",
    )


def test_topics_describe_tells_what_moves_and_what_is_down(
    cluster: FakeCluster, transcript: Transcript
) -> None:
    topic = cluster.add("orders", [1, 2], [1, 2])
    topic.isr = {0: [1], 1: [1]}
    topic.offline = {1: (2,)}
    cluster.moving = {admin.TopicPartition("orders", 0): admin.PartitionReassignment((1, 2), (2,), ())}
    transcript(
        "topics_describe_moving",
        "topics describe orders",
        "topics describe orders -o table",
        "topics describe --under-replicated-partitions",
        "topics describe --under-replicated-partitions -o table",
    )


def test_topics_alter(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_alter",
        "topics alter clicks --partitions 2",
        "topics alter clicks --partitions 3 --replica-assignment 1,1,2 --force -o table",
        "topics alter clicks --partitions 3 --force",
        "topics alter 'clicks,orders' --config retention.ms=5 --delete-config cleanup.policy -o json",
        "topics alter clicks --config no.such=1",
        "topics alter clicks --config retenton.ms=1",
        "topics alter 'clicks,orders' --delete-config no.such",
        "topics alter clicks",
        "topics alter clicks --partitions 4 --replica-assignment 1,1",
        "topics alter nothing --partitions 2",
        "topics alter nothing --partitions 2 --if-exists",
    )
    assert orders.topics["clicks"].assignments == [[1], [1], [2]]
    assert orders.topics["orders"].configs == {"retention.ms": "5"}


def test_topics_that_are_internal(cluster: FakeCluster, transcript: Transcript) -> None:
    cluster.add("clicks", [1])
    transcript(
        "topics_internal",
        "topics create __consumer_offsets",
        "topics create __transaction_state --partitions 1 --if-not-exists -o json",
        "topics create __share_group_state --partitions 1 --force",
        "topics create __share_group_state",
        "topics create __share_group_state --if-not-exists",
        "topics alter __share_group_state --partitions 2",
        "topics alter '.*' --partitions 2 --config retention.ms=5 --yes -o json",
        "topics describe",
        "topics alter __share_group_state --config retention.ms=6",
        "topics alter __share_group_state --partitions 3 --config retention.ms=7 --force",
        "topics describe __share_group_state",
    )
    assert cluster.topics.keys() == {"clicks", "__share_group_state"}


def test_topics_delete(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_delete",
        "topics delete orders",
        "topics delete '.*' -o json",
        "topics delete '.*' --dry-run",
        "topics delete '.*' --dry-run -o json",
        "topics delete '.*' --yes -o json",
        "topics delete '.*' --exclude-internal --yes",
        "topics delete '.*' --exclude-internal --if-exists",
        "topics delete __consumer_offsets --force -o table",
        "topics delete orders",
        "topics delete orders --if-exists",
    )
    assert not orders.topics


def test_topics_that_an_expression_chose_are_told(cluster: FakeCluster, transcript: Transcript) -> None:
    for name in (
        "my.topic",
        "my-topic",
        "clicks",
        "orders",
        "a",
        "b",
        "x1",
        "x2",
        "x3",
        "__consumer_offsets",
    ):
        cluster.add(name, [1])
    transcript(
        "topics_matched",
        "topics alter my.topic --config retention.ms=5",
        "topics alter 'clicks,orders' --config retention.ms=5",
        "topics alter my.topic --config retention.ms=5 -o json",
        "topics alter 'my.*' --config retention.ms=5",
        "topics alter 'my.*' --config retention.ms=5 --yes",
        "topics delete my.topic --dry-run",
        "topics delete my.topic",
        "topics delete my.topic",
        "topics delete my.topic --regex",
        "topics delete my.topic --regex --yes",
        "topics delete a,b,c",
        "topics delete '.*s' --yes",
        "topics alter 'zzz.*' --config retention.ms=5 --yes",
        "topics delete 'zzz.*'",
        "topics delete zzz --regex",
        "topics describe 'zzz.*'",
        "topics delete x.",
        "topics alter x1 x2 --partitions 3 -o json",
        "topics delete x1 x2 my.topic",
        "topics delete a ''",
    )


class Terminal(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "refused"), [("y\n", None), ("n\n", KcliError), ("", Interrupted)])
def test_a_terminal_is_asked_about_what_an_expression_matches(
    typed: str, refused: type[KcliError] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", asked)
    with pytest.raises(refused) if refused else nullcontext():
        Confirmation().confirm("delete", [f"topic-{number}" for number in range(22)], "topic-.*")
    shown = asked.getvalue().splitlines()
    assert shown[:2] == ["  topic-0", "  topic-1"]
    assert shown[20:] == ["  and 2 more", "delete 22 topics? [y/N] "]
