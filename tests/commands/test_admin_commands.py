"""The admin commands, whole: their output in each format, their errors and exit codes.

Lines of stderr are marked with `!` in the goldens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client import admin
from kcli.errors import KcliError
from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import FakeCluster
from tests.commands.fake_groups import FakeGroups


@pytest.fixture
def orders(cluster: FakeCluster) -> FakeCluster:
    """A cluster with a topic of three partitions, one of them out of sync and one without leader."""
    topic = cluster.add(
        "orders", [1, 2], [2, 1], [1, 2], retention_ms="60000", cleanup_policy="compact,delete"
    )
    topic.isr = {1: [2], 2: []}
    topic.leaderless = {2}
    topic.offsets = {0: (0, 10), 1: (5, 25), 2: (0, 3)}
    cluster.add("clicks", [1])
    cluster.add("__consumer_offsets", [1])
    return cluster


def test_topics_create(cluster: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "topics_create",
        "topics create orders --partitions 3 --replication-factor 2 --config retention.ms=60000",
        "topics create --topic clicks --replica-assignment 1:2,2:1 -o json",
        "topics create orders",
        "topics create orders --if-not-exists",
        "topics create app.events_raw",
        "topics create app.events_raw2 --force",
        "topics create 'a b'",
        "topics create big --replication-factor 3",
        "topics create bad --config retention.mz=1",
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
        "topics list 'orders,cl.*'",
        "topics list --topic 'cl.*' -o json",
        "topics list nothing",
        "topics list '['",
    )


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
        "topics alter '.*' --partitions 2 --config retention.ms=5 -o json",
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
        "topics delete '.*' --exclude-internal",
        "topics delete '.*' --exclude-internal --if-exists",
        "topics delete __consumer_offsets --force -o table",
        "topics delete orders",
        "topics delete orders --if-exists",
    )
    assert not orders.topics


def test_topics_that_an_expression_chose_are_told(cluster: FakeCluster, transcript: Transcript) -> None:
    for name in ("my.topic", "my-topic", "clicks", "orders", "a", "b", "__consumer_offsets"):
        cluster.add(name, [1])
    transcript(
        "topics_matched",
        "topics alter my.topic --config retention.ms=5",
        "topics alter 'clicks,orders' --config retention.ms=5",
        "topics alter my.topic --config retention.ms=5 -o json",
        "topics delete my.topic",
        "topics delete a,b",
        "topics delete my.topic --if-exists",
        "topics delete '.*s'",
    )


def test_configs(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "configs",
        "configs describe --topic orders",
        "configs describe --entity-type topics --entity-name clicks --all",
        "configs describe --topic orders --all -o table",
        "configs describe --topic orders -o json",
        "configs describe --entity-type topics",
        "configs describe --topic clicks",
        "configs describe --broker 2 -o table",
        "configs describe --broker-defaults",
        "configs alter --topic clicks --add retention.ms=1,cleanup.policy=[compact,delete]",
        "configs alter --topic clicks --append cleanup.policy=x --subtract cleanup.policy=delete -o json",
        "configs alter --topic clicks --delete-config retention.ms",
        "configs alter --topic clicks --add retention.ms=2 --validate-only",
        "configs alter --topic clicks --add retention.ms=2 --validate-only -o json",
        "configs alter --topic clicks --add no.such=2 --validate-only -o json",
        "configs describe --topic clicks",
        "configs alter --broker-defaults --add-config min.insync.replicas=2",
        "configs alter --broker 1 --add min.insync.replicas=2",
        "configs describe --entity-type brokers",
        "configs describe --topic nothing",
        "configs describe",
        "configs describe --topic orders --broker 1",
        "configs describe --entity-type users",
        "configs describe --entity-type topics --entity-default",
        "configs describe --broker one",
        "configs alter --topic orders",
        "configs alter --entity-type topics --add retention.ms=1",
        "configs alter --topic orders --add retention.ms",
        "configs alter --topic orders --add no.such=1",
        "configs alter --broker-defaults --add no.such=1",
        "configs describe --broker-defaults -o table",
        "configs alter --topic orders --delete no.such,retention.ms",
        "configs alter --topic nothing --delete no.such",
    )


def test_quotas(orders: FakeCluster, transcript: Transcript) -> None:
    rate, users, clients = "producer_byte_rate", "--entity-type users", "--entity-type clients"
    transcript(
        "quotas",
        f"configs alter --entity-type clients --entity-name x --add-config {rate}=1048576",
        f"configs alter --entity-type users --entity-default --add {rate}=20000000,consumer_byte_rate=5",
        f"configs alter {users} --entity-name u {clients} --entity-name c --add {rate}=3",
        f"configs alter --user u --client-defaults --add {rate}=4 -o json",
        f"configs alter --user-defaults --client c --add {rate}=5",
        f"configs alter --client-defaults --add {rate}=6 --validate-only",
        f"configs alter --client-defaults --add {rate}=6 --validate-only -o json",
        "configs describe --client x",
        "configs describe --entity-type clients",
        "configs describe --entity-type users",
        "configs describe --entity-type users --entity-default",
        "configs describe --entity-type users --entity-type clients",
        "configs describe --entity-type users --entity-type clients -o table",
        "configs describe --entity-type users --entity-name u --entity-type clients",
        "configs describe --user u --client-defaults -o json",
        "configs describe --user-defaults -o json",
        f"configs alter --client x --add {rate}=9223372036854775807,consumer_byte_rate=1024.0000000001",
        "configs describe --client x",
        f"configs alter --client x --delete {rate},consumer_byte_rate",
        "configs describe --client x",
        "configs describe --entity-type clients -o json",
        f"configs alter --client x --delete {rate}",
        # What cannot be
        "configs alter --client x --add request_percentage=10",
        f"configs alter --client x --add {rate}=much",
        f"configs alter --client x --add {rate}=1_000",
        f"configs alter --client x --add {rate}=nan",
        f"configs alter --client x --add-config {rate}=0.5",
        f"configs alter --client x --add {rate}=1e19",
        f"configs alter --client x --add {rate}=-1",
        f"configs alter --client x --add {rate}=0",
        "configs alter --client x --add request_percentage=-0.5",
        "configs alter --client x --add request_percentage=half",
        "configs alter --client x --delete no.such",
        "configs alter --client x",
        f"configs alter --client x --append {rate}=1",
        f"configs alter --entity-type clients --add {rate}=1",
        f"configs alter {users} {clients} --entity-default --entity-name c --add {rate}=1",
        "configs describe --client x --client-defaults",
        "configs describe --client x --entity-type clients",
        "configs describe --entity-type users --entity-type topics",
        "configs describe --client x --topic orders",
        "configs describe --client x --entity-name y",
        "configs describe --entity-type topics --entity-type brokers",
        "configs describe --entity-type topics --entity-name a --entity-name b",
        "configs describe --user=",
    )
    assert orders.client_quotas == {
        (("user", None),): {rate: 20_000_000, "consumer_byte_rate": 5},
        (("user", "u"), ("client-id", "c")): {rate: 3},
        (("user", "u"), ("client-id", None)): {rate: 4},
        (("user", None), ("client-id", "c")): {rate: 5},
    }


def test_configs_of_what_is_neither_topic_nor_broker(groups: FakeGroups, transcript: Transcript) -> None:
    groups.add_group("shipping")
    transcript(
        "configs_others",
        "configs alter --group billing --add consumer.heartbeat.interval.ms=6000",
        "configs describe --group billing",
        "configs describe --entity-type groups --entity-name billing --all -o table",
        "configs describe --entity-type groups",
        "configs describe --group shipping",
        "configs describe --group shipping -o table",
        "configs describe --group shipping -o json",
        "configs describe --group nothing",
        "configs describe --group nothing -o table",
        "configs describe --group nothing -o json",
        "configs describe --group nothing --all",
        "configs describe --entity-type client-metrics",
        "configs alter --client-metrics phones --add interval.ms=1000 -o json",
        "configs describe --client-metrics phones -o json",
        "configs describe --client-metrics nothing",
        "configs alter --broker-logger 1 --add kafka.server=DEBUG",
        "configs describe --broker-logger 1",
        "configs describe --entity-type broker-loggers",
        "configs describe --broker-logger one",
        "configs describe --group billing --client-metrics phones",
        "configs describe --entity-type groups --entity-default",
    )


def test_a_group_may_be_of_a_broker_that_does_not_answer(groups: FakeGroups, transcript: Transcript) -> None:
    groups.silent[2] = KcliError("cannot connect to broker-2:9092")
    transcript("configs_of_a_silent_broker", "configs describe --group nothing")


def test_get_offsets(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "get_offsets",
        "get-offsets orders",
        "get-offsets orders --time earliest --partitions 0,1 -o table",
        "get-offsets --topic-partitions orders:0-2,clicks -o json",
        "get-offsets --topic-partitions orders:1",
        "get-offsets --topic-partitions :-1",
        "get-offsets orders --partitions 1 --time 1700000000000",
        "get-offsets nothing",
        "get-offsets --topic-partitions nothing:0",
        "get-offsets nothing.*",
        "get-offsets orders --partitions 7",
        "get-offsets clicks,nothing",
        "get-offsets clicks,nothing,missing -o json",
        "get-offsets --topic-partitions nothing:0,clicks:0",
        "get-offsets clicks,nothing.*",
        "get-offsets clicks,__consumer_offsets --exclude-internal-topics",
        "get-offsets nothing,missing",
        "get-offsets clicks,nothing --partitions 7",
        "get-offsets orders --time soon",
        "get-offsets orders --time -9",
        "get-offsets orders --time 9223372036854775808",
        "get-offsets orders --time earliest-pending-upload",
        "get-offsets orders --time -6",
        "get-offsets orders --topic-partitions orders",
        "get-offsets --topic-partitions a:b",
        "get-offsets orders --partitions one",
    )


def test_delete_records(
    orders: FakeCluster, transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = '{"partitions": [{"topic": "orders", "partition": 2, "offset": -1}], "version": 1}'
    Path("good.json").write_text(good)
    Path("version.json").write_text('{"partitions": [], "version": 2}')
    Path("entry.json").write_text('{"partitions": [{"topic": "orders"}]}')
    Path("list.json").write_text("[]")
    Path("broken.json").write_text("{")
    orders.add("prices", [1], cleanup_policy="compact").offsets = {0: (0, 10)}
    transcript(
        "delete_records",
        "delete-records orders:0:4 orders:1:25",
        "delete-records --offset-json-file good.json -o table",
        "delete-records orders:0:5 orders:9:0 -o json",
        "delete-records orders:0:99",
        "delete-records prices:0:5",
        "delete-records orders:0:5 orders:0:6",
        "delete-records orders:0",
        "delete-records orders:0:-2",
        "delete-records orders:0:9223372036854775808",
        "delete-records --offset-json-file version.json",
        "delete-records --offset-json-file entry.json",
        "delete-records --offset-json-file list.json",
        "delete-records --offset-json-file broken.json",
        "delete-records --offset-json-file missing.json",
        "delete-records",
    )
    assert orders.topics["orders"].offsets == {0: (5, 10), 1: (25, 25), 2: (3, 3)}


def test_log_dirs(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "log_dirs",
        "log-dirs describe --broker-list 1 --topic-list orders",
        "log-dirs describe -o table",
        "log-dirs describe --topic-list clicks -o json",
        "log-dirs describe --broker-list 1,7",
        "log-dirs describe --broker-list one",
    )


def test_log_dirs_move(orders: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "log_dirs_move",
        "log-dirs move orders:0 --broker 1 --to /d3",
        "log-dirs move orders:0 orders:1 --broker 1 --to /d3 -o table",
        "log-dirs move orders:0 --broker 1 --to /d1 --wait -o json",
        "log-dirs move orders:0 --broker 1 --to /d3 --wait",
        "log-dirs move orders:0 --broker 1 --to /nowhere",
        "log-dirs move clicks:0 --broker 2 --to /d1",
        "log-dirs move orders:0 --broker 7 --to /d1",
        "log-dirs move orders:0 --broker 3 --to /d1",
        "log-dirs move orders:0 --broker 1 --to d1",
        "log-dirs move orders --broker 1 --to /d1",
        "log-dirs move orders:0 --broker 1",
        "log-dirs move orders:0 --to /d1",
        "log-dirs move --broker 1 --to /d1",
    )


def test_cluster(cluster: FakeCluster, transcript: Transcript) -> None:
    transcript(
        "cluster",
        "cluster id",
        "cluster id -o json",
        "cluster nodes",
        "cluster nodes --include-fenced-brokers -o table",
        "cluster nodes -o json",
        "cluster unregister 3",
        "cluster unregister 3 -o json",
        "cluster unregister --id 3",
        "cluster unregister 3 --id 3",
        "cluster unregister 2",
        "cluster unregister 2 --force",
        "cluster unregister 9",
        "cluster unregister three",
        "cluster unregister",
        "cluster api-versions",
        "cluster api-versions -o table",
    )
