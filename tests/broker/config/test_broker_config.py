"""The configuration of a broker: layers, precedence, what is refused, and what only warns."""

from __future__ import annotations

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.broker_definitions import BROKER_CONFIGS, SETTINGS, BrokerSettings, find_broker_config
from kcli.broker.config.config_definition import InvalidConfig, UpdateMode
from kcli.broker.config.group_definitions import GROUP_CONFIGS
from kcli.broker.config.inert_configs import inert_configs, is_security
from kcli.broker.config.listener_config import ListenerConfig
from kcli.broker.config.security_definitions import STANDARD_AUTHORIZER, split_principals
from kcli.broker.config.topic_definitions import TOPIC_CONFIGS
from kcli.errors import UsageError
from kcli.protocol.configs import NO_EFFECT, ConfigType
from kcli.storage.log.log_config import LogConfig

HOUR_MS = 3_600_000


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({key.replace("_", "."): value for key, value in properties.items()})


def test_without_properties_everything_is_its_default() -> None:
    empty = config()
    for name, row in SETTINGS.items():
        if name != "broker.id":
            assert getattr(empty, row.field) == row.default
    assert empty.log_config({}) == LogConfig()
    assert empty.warnings == ()


def test_every_row_has_a_doc_and_says_it_once() -> None:
    topics = (config.definition for config in TOPIC_CONFIGS.values())
    rows = [*BROKER_CONFIGS.values(), *inert_configs().values(), *GROUP_CONFIGS.values(), *topics]
    assert all(row.doc[0].isupper() or row.doc[0] == "`" for row in rows)
    assert all(row.doc.endswith(".") for row in rows)
    assert not BROKER_CONFIGS.keys() & inert_configs().keys()


def test_a_row_without_effect_says_so_at_the_end() -> None:
    assert all(row.documentation.endswith(f". {NO_EFFECT}") for row in inert_configs().values())
    assert BROKER_CONFIGS["log.local.retention.ms"].documentation.endswith(f". {NO_EFFECT}")
    assert not BROKER_CONFIGS["log.retention.ms"].documentation.endswith(NO_EFFECT)


def test_a_default_is_a_value_that_could_be_set() -> None:
    for row in [*BROKER_CONFIGS.values(), *inert_configs().values()]:
        if row.default is not None:
            assert row.parse(row.default_text or "") == row.default


@pytest.mark.parametrize(
    ("name", "minimum"), [("controller.quorum.fetch.timeout.ms", 0), ("offsets.topic.segment.bytes", 1)]
)
def test_the_smallest_value_is_that_of_apache_kafka(name: str, minimum: int) -> None:
    assert BROKER_CONFIGS[name].parse(str(minimum)) == minimum
    with pytest.raises(InvalidConfig, match=f"must be at least {minimum}$"):
        BROKER_CONFIGS[name].parse(str(minimum - 1))


def test_attributes_are_named_as_the_configurations() -> None:
    assert all(getattr(BrokerSettings, row.field) is row for row in SETTINGS.values())


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(AttributeError, match="does not change"):
        config().num_partitions = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log_retention_hours": "2"}, 2 * HOUR_MS),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_minutes": "-1"}, -1),
        ({"log_retention_ms": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(properties: dict[str, str], retention_ms: int) -> None:
    assert config(**properties).log_config({}).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("properties", "field", "value"),
    [
        ({"log_roll_hours": "1"}, "segment_ms", HOUR_MS),
        ({"log_roll_hours": "1", "log_roll_ms": "7"}, "segment_ms", 7),
        ({"log_roll_jitter_hours": "1"}, "segment_jitter_ms", HOUR_MS),
        ({"log_flush_scheduler_interval_ms": "9"}, "flush_ms", 9),
        ({"log_flush_scheduler_interval_ms": "9", "log_flush_interval_ms": "8"}, "flush_ms", 8),
        ({"message_max_bytes": "5"}, "max_message_bytes", 5),
        ({"log_cleanup_policy": "compact, delete"}, "cleanup_policy", frozenset({"compact", "delete"})),
        ({"log_index_size_max_bytes": "80"}, "segment_index_bytes", 80),
        ({"log_segment_delete_delay_ms": "1"}, "file_delete_delay_ms", 1),
        ({"compression_type": "zstd"}, "compression_type", "zstd"),
    ],
)
def test_broker_configurations_are_topics_defaults(
    properties: dict[str, str], field: str, value: object
) -> None:
    assert getattr(config(**properties).log_config({}), field) == value


def test_a_topics_own_value_beats_every_layer() -> None:
    broker = config(log_retention_ms="1").with_dynamic(
        broker={"log.retention.ms": "3"}, default={"log.retention.ms": "2"}
    )
    assert broker.log_config({}).retention_ms == 3
    assert broker.log_config({"retention.ms": "4"}).retention_ms == 4


def test_layers() -> None:
    static = config(max_connections="1")
    assert static.max_connections == 1
    default = static.with_dynamic(broker={}, default={"max.connections": "2"})
    assert default.max_connections == 2
    own = static.with_dynamic(broker={"max.connections": "3"}, default={"max.connections": "2"})
    assert own.max_connections == 3
    assert static.max_connections == 1


def test_stored_values_that_make_no_sense_any_more_are_left_out() -> None:
    broker = config().with_dynamic(
        broker={"max.connections": "many", "gone": "1", "ssl.protocol": "x"}, default={}
    )
    assert broker.max_connections == 2**31 - 1
    assert broker.log_config({"retention.ms": "soon", "gone": "1"}) == LogConfig()


def test_segments_may_be_small_for_tests() -> None:
    assert config().log_config({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_known_names_without_effect_are_one_warning_each() -> None:
    broker = BrokerConfig.from_properties(
        {"zookeeper.connect": "x", "listener.name.external.sasl.jaas.config": "y", "num.partitions": "3"}
    )
    assert broker.warnings == (
        "`zookeeper.connect` has no effect in kcli",
        "`listener.name.external.sasl.jaas.config` has no effect: `listeners` has no `EXTERNAL`",
    )
    assert broker.num_partitions == 3


def test_values_without_effect_are_stored_and_typed() -> None:
    broker = config(num_io_threads="16", remote_log_manager_task_retry_jitter="0.5")
    assert broker.static["num.io.threads"] == "16"
    assert broker.value("num.io.threads") == 16
    assert broker.value("remote.log.manager.task.retry.jitter") == 0.5
    assert broker.value("num.network.threads") == 3
    assert broker.with_dynamic(broker={"num.io.threads": "9"}, default={}).value("num.io.threads") == 9


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"num.io.threads": "0"}, "invalid value `0` for `num.io.threads`: must be at least 1"),
        (
            {"queued.max.requests": "x"},
            "invalid value `x` for `queued.max.requests`: not a number of type INT",
        ),
        (
            {"controller.quorum.voters": "1"},
            "invalid value `1` for `controller.quorum.voters`: must be a list of id@host:port",
        ),
        (
            {"group.share.heartbeat.interval.ms": "20000"},
            "`group.share.heartbeat.interval.ms` (20000) must not be above "
            "`group.share.max.heartbeat.interval.ms` (15000)",
        ),
        (
            {"log.dirs": "/a,/b", "cordoned.log.dirs": "/a,/c"},
            "`cordoned.log.dirs` has `/c`, `log.dirs` has not",
        ),
    ],
)
def test_values_without_effect_are_checked_as_in_kafka(properties: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_properties(properties)
    assert refused.value.message == message


def test_names_that_kafka_itself_does_not_know_have_no_type() -> None:
    names = (
        "zookeeper.connect",
        "rsm.config.bucket",
    )
    rows = [find_broker_config(name) for name in names]
    assert all(row is not None and row.type is ConfigType.UNKNOWN and row.is_sensitive for row in rows)
    assert find_broker_config("listener.name.a.no.such.name") is None
    of_a_listener = find_broker_config("listener.name.a.max.connections")
    assert of_a_listener is not None
    assert (of_a_listener.type, of_a_listener.mode) == (ConfigType.INT, UpdateMode.CLUSTER_WIDE)
    assert find_broker_config("no.such.name") is None


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("ssl.engine.factory.class", True),
        ("listener.name.a.ssl.engine.factory.class", True),
        ("listener.name.a.ssl.keystore.location", False),
        ("principal.builder.class", True),
        ("sasl.kerberos.min.time.before.relogin", False),
        ("num.io.threads", False),
    ],
)
def test_which_configurations_are_of_security(name: str, is_one: bool) -> None:
    assert is_security(name) is is_one


def test_the_configurations_of_the_cleaner_act() -> None:
    broker = config(
        log_cleanup_policy="compact,delete",
        log_cleaner_min_compaction_lag_ms="5",
        log_cleaner_threads="2",
        log_cleaner_io_max_bytes_per_second="1e6",
    )
    assert broker.warnings == ()
    assert (broker.log_cleaner_threads, broker.log_cleaner_io_max_bytes_per_second) == (2, 1e6)
    log = broker.log_config({"min.cleanable.dirty.ratio": "0.1"})
    assert (log.is_compacted, log.is_deleted) == (True, True)
    assert (log.min_compaction_lag_ms, log.min_cleanable_dirty_ratio) == (5, 0.1)
    modes = {row.mode for name, row in BROKER_CONFIGS.items() if name.startswith("log.cleaner.")}
    assert modes == {UpdateMode.READ_ONLY, UpdateMode.CLUSTER_WIDE}
    assert BROKER_CONFIGS["log.cleaner.enable"].mode is UpdateMode.READ_ONLY


@pytest.mark.parametrize(
    ("properties", "message", "hint"),
    [
        (
            {"log.retentoin.ms": "1"},
            "unknown broker config name: log.retentoin.ms",
            "did you mean `log.retention.ms`?",
        ),
        (
            {"numpartitions": "1"},
            "unknown broker config name: numpartitions",
            "did you mean `num.partitions`?",
        ),
        ({"zz": "1"}, "unknown broker config name: zz", None),
        ({"num.partitions": "0"}, "invalid value `0` for `num.partitions`: must be at least 1", None),
        ({"num.partitions": "x"}, "invalid value `x` for `num.partitions`: not a number of type INT", None),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "`min.compaction.lag.ms` (5) must not be above `max.compaction.lag.ms` (4)",
            None,
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1000"},
            "`log.cleaner.dedupe.buffer.size` (1000) must be above 1 MiB for each of "
            "`log.cleaner.threads` (1)",
            None,
        ),
        ({"listeners": "9092"}, "invalid entry `9092` in `listeners`", "write it as `NAME://host:port`"),
        ({"listeners": ""}, "`listeners` has no listener for clients", None),
        (
            {"listeners": "SASL_SSL://:1"},
            "listener `SASL_SSL` has GSSAPI, and kcli has no Kerberos",
            "`--override sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512`",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "clients cannot connect to the advertised `PLAINTEXT://0.0.0.0:1`: `0.0.0.0` is not a host",
            "`--override advertised.listeners=PLAINTEXT://localhost:1` gives one they can use",
        ),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092"},
            "clients cannot connect to the advertised `PLAINTEXT://0.0.0.0:9092`: `0.0.0.0` is not a host",
            "`--override advertised.listeners=PLAINTEXT://localhost:9092` gives one they can use",
        ),
        (
            {
                "listeners": "IN://a:1,OUT://[::]:2,CONTROLLER://0.0.0.0:3",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
            },
            "clients cannot connect to the advertised `OUT://[::]:2`: `::` is not a host",
            "`--override advertised.listeners=IN://a:1,OUT://localhost:2` gives one they can use",
        ),
        (
            {"advertised.listeners": "SSL://a:1"},
            "`advertised.listeners` has `SSL`, `listeners` has not",
            None,
        ),
        (
            {"max.connections.per.ip.overrides": "10.0.0.1"},
            "invalid value `10.0.0.1` for `max.connections.per.ip.overrides`: "
            "`10.0.0.1` is not an address:count pair",
            None,
        ),
    ],
)
def test_refusals(properties: dict[str, str], message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        BrokerConfig.from_properties(properties)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("listeners", "advertised"),
    [
        ("PLAINTEXT://:9092", None),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://localhost:9092"),
        ("PLAINTEXT://[::]:9092", "PLAINTEXT://:9092"),
        ("PLAINTEXT://a:9092,CONTROLLER://0.0.0.0:9093", None),
        ("PLAINTEXT://a:9092,CONTROLLER://0.0.0.0:9093", "PLAINTEXT://b:9092,CONTROLLER://0.0.0.0:9093"),
    ],
)
def test_a_listener_may_have_every_address_if_clients_are_told_another(
    listeners: str, advertised: str | None
) -> None:
    given = {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    if advertised is not None:
        given["advertised_listeners"] = advertised
    told = config(listeners=listeners, controller_listener_names="CONTROLLER", **given)
    assert [each.name for each in told.advertised_listener_configs] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("properties", "node_id"),
    [
        ({}, 1),
        ({"broker_id": "7"}, 7),
        ({"node_id": "8", "broker_id": "7"}, 8),
        ({"broker_id": "-1"}, 1),
    ],
)
def test_node_id_and_its_older_name(properties: dict[str, str], node_id: int) -> None:
    broker = config(**properties)
    assert (broker.node_id, broker.value("broker.id")) == (node_id, node_id)


@pytest.mark.parametrize(
    ("properties", "directories"),
    [({}, ()), ({"log_dir": "a"}, ("a",)), ({"log_dir": "a", "log_dirs": "b, c"}, ("b", "c"))],
)
def test_log_directories(properties: dict[str, str], directories: tuple[str, ...]) -> None:
    assert config(**properties).log_directories == directories


def test_listeners() -> None:
    broker = config(
        listeners="PLAINTEXT://:9092,outside://[::1]:0,CONTROLLER://:9093",
        advertised_listeners="OUTSIDE://kafka.example:443",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT, OUTSIDE:PLAINTEXT, CONTROLLER:PLAINTEXT",
    )
    assert broker.listener_configs == (
        ListenerConfig("PLAINTEXT", "", 9092),
        ListenerConfig("OUTSIDE", "::1", 0),
    )
    assert broker.advertised_listener_configs == (ListenerConfig("OUTSIDE", "kafka.example", 443),)
    assert str(broker.listener_configs[1]) == "OUTSIDE://[::1]:0"


def test_what_is_listened_on_is_advertised_if_nothing_else_is() -> None:
    assert config().advertised_listener_configs == (ListenerConfig("PLAINTEXT", "", 9092),)


def test_only_what_may_change_while_a_broker_runs_says_so() -> None:
    changeable = {name for name, row in BROKER_CONFIGS.items() if row.mode is not UpdateMode.READ_ONLY}
    assert {"max.connections", "log.retention.ms", "min.insync.replicas"} <= changeable
    assert not {"listeners", "node.id", "log.dirs", "log.retention.hours", "num.partitions"} & changeable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("principal.builder.class", "com.example.Builder"),
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("security.providers", "com.example.Provider"),
        ("listener.name.external.ssl.engine.factory.class", "com.example.Factory"),
        ("sasl.server.callback.handler.class", "com.example.Handler"),
    ],
)
def test_access_control_that_would_not_act_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        config(**{name: value})
    assert refused.value.message == f"`{name}` is set, and kcli does not act on it: every client would get in"
    assert refused.value.hint == "remove it"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "principal.builder.class",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        ),
    ],
)
def test_access_control_that_is_off_costs_a_warning(name: str, value: str) -> None:
    assert len(config(**{name: value}).warnings) == 1


def client_auth_of(listeners: str, name: str, value: str) -> BrokerConfig:
    """Return a configuration where `name` is set, and users log in by PLAIN."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given = {"listeners": listeners, "sasl.enabled.mechanisms": "PLAIN", name: value}
    if "SASL" in listeners:
        given["listener.name.sasl_ssl.plain.sasl.jaas.config"] = f'{module} required user_a="b";'
    return BrokerConfig.from_properties(given)


PLAIN_AND_TLS = "PLAINTEXT://:1,SSL://:2"
TLS_AND_LOGINS = "SSL://:2,SASL_SSL://:3"
LOGINS = "SASL_SSL://:3"


@pytest.mark.parametrize(
    ("listeners", "name", "acts"),
    [
        (PLAIN_AND_TLS, "ssl.client.auth", True),
        (PLAIN_AND_TLS, "listener.name.ssl.ssl.client.auth", True),
        (PLAIN_AND_TLS, "listener.name.plaintext.ssl.client.auth", False),
        (PLAIN_AND_TLS, "listener.name.other.ssl.client.auth", False),
        ("PLAINTEXT://:1", "ssl.client.auth", False),
        (TLS_AND_LOGINS, "ssl.client.auth", True),
        (LOGINS, "ssl.client.auth", False),
        (LOGINS, "listener.name.sasl_ssl.ssl.client.auth", True),
    ],
)
def test_certificates_are_demanded_only_where_a_listener_asks_for_them(
    listeners: str, name: str, acts: bool
) -> None:
    assert client_auth_of(listeners, name, "none").value(name) == "none"
    if acts:
        assert client_auth_of(listeners, name, "required").value(name) == "required"
        return
    with pytest.raises(UsageError) as refused:
        client_auth_of(listeners, name, "required")
    wrong = f"`{name}` is required, and no listener acts on it: every client would get in"
    assert refused.value.message == wrong


def test_certificates_are_not_demanded_where_clients_log_in_which_is_told() -> None:
    (warning,) = client_auth_of(TLS_AND_LOGINS, "ssl.client.auth", "required").warnings
    own = "listener.name.sasl_ssl.ssl.client.auth"
    assert warning == f"`ssl.client.auth` has no effect on `SASL_SSL`, where clients log in: `{own}` has"


@pytest.mark.parametrize(
    ("name", "value"), [("super.users", "User:admin"), ("allow.everyone.if.no.acl.found", "false")]
)
def test_settings_of_an_authorizer_without_one_are_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        config(**{name: value})
    wrong = f"`{name}` is set without `authorizer.class.name`: every client would get in"
    assert refused.value.message == wrong
    settings = config(**{name: value, "authorizer.class.name": "standard"})
    assert settings.authorizer_class_name == "standard"
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("authorizer.class.name", "com.example.Authorizer", "must be empty or `org.apache.kafka.metadata"),
        ("super.users", "User:admin;root", "`root` is not a principal, as in `User:alice`"),
        ("allow.everyone.if.no.acl.found", "yes", "expected `true` or `false`"),
    ],
)
def test_an_authorizer_that_could_not_act_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        config(**{"authorizer.class.name": "standard", name: value})


def test_an_authorizer_may_be_named_and_switched_off() -> None:
    assert config(**{"authorizer.class.name": "", "super.users": " "}).authorizer_class_name == ""
    assert config(**{"allow.everyone.if.no.acl.found": "true"}).warnings == ()
    named = config(**{"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:a; User:b ;"})
    assert split_principals(named.super_users) == ("User:a", "User:b")
