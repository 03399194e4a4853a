"""The verbs of `kcli configs`: their whole output in each format, errors and exit codes.

Lines of stderr are marked with `!` in the goldens.
"""

from __future__ import annotations

from collections.abc import Callable

from kcli.errors import KcliError
from tests.commands.conftest import Transcript
from tests.commands.fake_cluster import FakeCluster
from tests.commands.fake_groups import FakeGroups
from tests.conftest import Finished


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
        "configs describe --topic nothing -o json",
        "configs describe",
        "configs describe --topic orders --broker 1",
        "configs describe --entity-type users",
        "configs describe --entity-type topics --entity-default",
        "configs describe --broker one",
        "configs alter --topic orders",
        "configs alter --entity-type topics --add retention.ms=1",
        "configs alter --topic orders --add retention.ms",
        "configs alter --topic orders --add no.such=1",
        "configs alter --topic orders --add retenton.ms=1",
        "configs alter --topic orders --delete retenton.ms",
        "configs alter --topic orders --add retention.ms=1,cleanup.policy=compact,delete",
        "configs alter --topic orders --add compact,delete",
        "configs alter --broker-defaults --add no.such=1",
        "configs describe --broker-defaults -o table",
        "configs alter --topic orders --delete no.such,retention.ms",
        "configs alter --topic nothing --delete no.such",
    )


def test_a_broker_that_compacts_costs_no_warning(orders: FakeCluster, kcli: Callable[..., Finished]) -> None:
    finished = kcli("configs", "alter", "orders", "--add", "cleanup.policy=compact")
    assert (finished.exit_code, finished.err) == (0, "")
    finished = kcli("topics", "create", "changes", "--config", "cleanup.policy=compact")
    assert (finished.exit_code, finished.err) == (0, "")


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
        # Refusals
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
        "configs alter --client x --delete producer_byte_rat",
        "configs alter --client x --add producer_byte_rat=1",
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
