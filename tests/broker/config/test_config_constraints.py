"""What Kafka refuses together, at the start and while a broker runs."""

from __future__ import annotations

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError

OWN, DEFAULT = False, True


def refusal(**properties: str) -> str | None:
    """Return why a broker does not start with these properties, None if it does."""
    try:
        BrokerConfig.from_properties({name.replace("_", "."): text for name, text in properties.items()})
    except UsageError as error:
        return error.message
    return None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"replica_fetch_wait_max_ms": "60000"},
            "`replica.fetch.wait.max.ms` (60000) must not be above `replica.socket.timeout.ms` (30000)",
        ),
        (
            {"replica_fetch_wait_max_ms": "60000", "replica_socket_timeout_ms": "60000"},
            "`replica.fetch.wait.max.ms` (60000) must not be above `replica.lag.time.max.ms` (30000)",
        ),
        (
            {"replica_lag_time_max_ms": "499"},
            "`replica.fetch.wait.max.ms` (500) must not be above `replica.lag.time.max.ms` (499)",
        ),
        ({"replica_lag_time_max_ms": "500", "replica_socket_timeout_ms": "500"}, None),
        ({"broker_heartbeat_interval_ms": "60000"}, None),
        (
            {"group_consumer_session_timeout_ms": "44999"},
            "`group.consumer.min.session.timeout.ms` (45000) must not be above "
            "`group.consumer.session.timeout.ms` (44999)",
        ),
        (
            {"group_consumer_session_timeout_ms": "60001"},
            "`group.consumer.session.timeout.ms` (60001) must not be above "
            "`group.consumer.max.session.timeout.ms` (60000)",
        ),
        (
            {"group_consumer_min_session_timeout_ms": "70000"},
            "`group.consumer.min.session.timeout.ms` (70000) must not be above "
            "`group.consumer.max.session.timeout.ms` (60000)",
        ),
        (
            {"group_consumer_heartbeat_interval_ms": "4999"},
            "`group.consumer.min.heartbeat.interval.ms` (5000) must not be above "
            "`group.consumer.heartbeat.interval.ms` (4999)",
        ),
        (
            {"group_consumer_heartbeat_interval_ms": "15001"},
            "`group.consumer.heartbeat.interval.ms` (15001) must not be above "
            "`group.consumer.max.heartbeat.interval.ms` (15000)",
        ),
        (
            {
                "group_consumer_heartbeat_interval_ms": "45000",
                "group_consumer_max_heartbeat_interval_ms": "45000",
            },
            "`group.consumer.heartbeat.interval.ms` (45000) must be below "
            "`group.consumer.session.timeout.ms` (45000)",
        ),
        ({"group_min_session_timeout_ms": "1800001"}, None),
        (
            {"log_retention_ms": "0"},
            "`log.retention.ms` (0) must be at least 1, or -1 to keep records forever",
        ),
        (
            {"log_retention_hours": "0"},
            "`log.retention.hours` (0) must be at least 1, or -1 to keep records forever",
        ),
        ({"log_retention_hours": "0", "log_retention_minutes": "-7"}, None),
        ({"log_retention_ms": "-5"}, None),
        (
            {"group_consumer_assignment_interval_ms": "15001"},
            "`group.consumer.assignment.interval.ms` (15001) must not be above "
            "`group.consumer.max.assignment.interval.ms` (15000)",
        ),
        (
            {"group_consumer_min_assignment_interval_ms": "1"},
            "`group.consumer.min.assignment.interval.ms` (1) must not be above "
            "`group.consumer.assignment.interval.ms` (0)",
        ),
        (
            {"max_connections_per_ip": "0"},
            "`max.connections.per.ip` (0) admits no client without `max.connections.per.ip.overrides`",
        ),
        ({"max_connections_per_ip": "0", "max_connections_per_ip_overrides": "10.0.0.1:1"}, None),
        (
            {"listeners": "PLAINTEXT://a:1,SSL://b:1"},
            "`PLAINTEXT` and `SSL` have the same port 1 in `listeners`",
        ),
    ],
)
def test_at_the_start(properties: dict[str, str], message: str | None) -> None:
    assert refusal(**properties) == message


@pytest.mark.parametrize(
    ("interval", "warnings"),
    [
        ("4500", ()),
        (
            "4501",
            (
                "`broker.heartbeat.interval.ms` (4501) is more than half of "
                "`broker.session.timeout.ms` (9000): the controller may fence a node that is alive",
            ),
        ),
    ],
)
def test_what_is_possible_and_hardly_meant_is_a_warning(interval: str, warnings: tuple[str, ...]) -> None:
    properties = {"broker.heartbeat.interval.ms": interval}
    assert BrokerConfig.from_properties(properties).warnings == warnings


@pytest.mark.parametrize("hosts", [("127.0.0.1", "[::1]"), ("[::1]", "127.0.0.1")])
def test_one_port_may_be_that_of_ipv4_and_of_ipv6(hosts: tuple[str, str]) -> None:
    listeners = f"PLAINTEXT://{hosts[0]}:1,OTHER://{hosts[1]}:1"
    protocols = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    assert refusal(listeners=listeners, listener_security_protocol_map=protocols) is None


@pytest.mark.parametrize("is_default", [OWN, DEFAULT])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"max.connections.per.ip": "0"},
            "`max.connections.per.ip` (0) admits no client without `max.connections.per.ip.overrides`",
        ),
        ({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:1"}, None),
        (
            {"log.retention.ms": "0"},
            "`log.retention.ms` (0) must be at least 1, or -1 to keep records forever",
        ),
        # Kafka looks at these when it starts, and when a topic is made.
        ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, None),
        (
            {"log.local.retention.ms": "7", "log.retention.ms": "6"},
            "`log.local.retention.ms` (7) must not be above `log.retention.ms` (6)",
        ),
        (
            {"log.local.retention.bytes": "-1", "log.retention.bytes": "6"},
            "`log.local.retention.bytes` (-1) must not be above `log.retention.bytes` (6)",
        ),
        ({"log.local.retention.bytes": "7", "log.retention.bytes": "-1"}, None),
        (
            {"num.replica.fetchers": "2"},
            "`num.replica.fetchers` (2) must be between half and double of its current value 6",
        ),
        ({"num.replica.fetchers": "3"}, None),
        ({"num.replica.fetchers": "12"}, None),
        (
            {"num.replica.fetchers": "13"},
            "`num.replica.fetchers` (13) must be between half and double of its current value 6",
        ),
        # The controller says of these that they are not configurable like this.
        ({"replica.fetch.wait.max.ms": "60000", "no.such.name": "1", "max.connections": "many"}, None),
    ],
)
def test_while_a_broker_runs(values: dict[str, str], message: str | None, is_default: bool) -> None:
    config = BrokerConfig.from_properties({"num.replica.fetchers": "6"})
    if message is None:
        config.check_reconfiguration(values, is_default=is_default)
        return
    with pytest.raises(KafkaError) as caught:
        config.check_reconfiguration(values, is_default=is_default)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_nodes_own_values_stand_over_the_default_of_all() -> None:
    config = BrokerConfig.from_properties({}).with_dynamic(
        broker={"max.connections.per.ip": "3"}, default={"max.connections": "5"}
    )
    config.check_reconfiguration({"max.connections.per.ip": "0"}, is_default=DEFAULT)
    with pytest.raises(KafkaError):
        config.check_reconfiguration({"max.connections.per.ip": "0"}, is_default=OWN)
