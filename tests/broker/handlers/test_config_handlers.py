"""The four APIs of configurations, over a controller in memory."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.config.loggers import logger_levels
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.handlers.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from kcli.broker.network.apis import Api
from kcli.broker.network.request_context import RequestContext
from kcli.errors import UsageError
from kcli.protocol.configs import NO_EFFECT
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages import alter_configs as legacy
from kcli.protocol.messages import incremental_alter_configs as incremental
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.schema.declaration import codec
from tests.support.metadata import running_controller

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Node:
    """Node 1 of two, with the topic `a`; it applies dynamic configuration as a broker does."""

    node_id = 1

    def __init__(self, *, controller_id: int = 2) -> None:
        self.controller_link = SimpleNamespace(controller_id=controller_id)
        self.controller = running_controller(2)
        self.controller.create_topics([NewTopic("a", 1, 1)], defaults=TopicDefaults())
        self._static = BrokerConfig.from_properties({"node.id": "1", "log.retention.hours": "1"})

    @property
    def image(self) -> Any:
        return self.controller.image

    @property
    def config(self) -> BrokerConfig:
        return self._static.with_dynamic(
            broker=self.image.config(BROKER, "1"), default=self.image.config(BROKER, "")
        )

    def check_stores(self, config: BrokerConfig) -> None:
        if config.listener_properties("a").text("ssl.keystore.location") == "/broken":
            raise UsageError("cannot use the key store `/broken`")

    def context(self, version: int) -> RequestContext:
        context = RequestContext(SimpleNamespace(broker=self).broker, "PLAINTEXT", "127.0.0.1")  # type: ignore[arg-type]
        context.api_version = version
        return context

    def describe(self, type: int, name: str, *keys: str, version: int = 4, **options: bool) -> Any:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=type, resource_name=name, configuration_keys=list(keys) or None
                )
            ],
            **options,
        )
        response = describe_configs(request, self.context(version))
        encoded = codec(DescribeConfigsResponse, version).encode(response)
        return codec(DescribeConfigsResponse, version).decode(encoded)[0].results[0]

    def alter(self, type: int, name: str, *changes: tuple[str, int, str | None], **options: bool) -> int:
        """Return the error code of a change of one resource."""
        resource = incremental.AlterConfigsResource(
            resource_type=type,
            resource_name=name,
            configs=[
                incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ],
        )
        request = incremental.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=options.get("validate_only", False)
        )
        (answer,) = incremental_alter_configs(request, self.context(1)).responses
        assert (answer.resource_type, answer.resource_name) == (type, name)
        return int(answer.error_code)

    def replace(self, type: int, name: str, **values: str | None) -> int:
        resource = legacy.AlterConfigsResource(
            resource_type=type,
            resource_name=name,
            configs=[
                legacy.AlterableConfig(name=key.replace("_", "."), value=value)
                for key, value in values.items()
            ],
        )
        request = legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
        return int(alter_configs(request, self.context(2)).responses[0].error_code)


def test_a_topics_configuration_with_all_that_belongs_to_it() -> None:
    node = Node()
    assert node.alter(TOPIC, "a", ("retention.ms", SET, "5")) == 0
    result = node.describe(TOPIC, "a", "retention.ms", include_synonyms=True, include_documentation=True)
    (entry,) = result.configs
    assert (entry.name, entry.value, entry.read_only, entry.is_sensitive) == (
        "retention.ms",
        "5",
        False,
        False,
    )
    assert (entry.config_source, entry.config_type) == (1, 5)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [("retention.ms", "5", 1)]
    assert "-1 keeps them forever" in entry.documentation


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    (entry,) = Node().describe(TOPIC, "a", "segment.bytes").configs
    assert (entry.synonyms, entry.documentation) == ([], None)


@pytest.mark.parametrize("version", range(5))
def test_every_version_describes(version: int) -> None:
    node = Node()
    node.alter(TOPIC, "a", ("retention.ms", SET, "5"))
    entries = {entry.name: entry for entry in node.describe(TOPIC, "a", version=version).configs}
    assert len(entries) == 33
    assert entries["retention.ms"].value == "5"
    if version == 0:
        assert (entries["retention.ms"].is_default, entries["segment.ms"].is_default) == (False, True)
    else:
        assert (entries["retention.ms"].config_source, entries["segment.ms"].config_source) == (1, 5)


def test_an_empty_list_of_names_is_all() -> None:
    node = Node()
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="a", configuration_keys=[])
    response = describe_configs(DescribeConfigsRequest(resources=[resource]), node.context(4))
    assert len(response.results[0].configs) == 33


@pytest.mark.parametrize("type", [0, 1, 3, -1, 127])
def test_an_unknown_type_of_resource_fails_the_request(type: int) -> None:
    node = Node()
    asked = [
        DescribeConfigsResource(resource_type=each, resource_name="a", configuration_keys=[])
        for each in (TOPIC, type)
    ]
    with pytest.raises(KafkaError) as caught:
        describe_configs(DescribeConfigsRequest(resources=asked), node.context(4))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert node.alter(type, "a", ("retention.ms", SET, "1")) == ErrorCode.INVALID_REQUEST


def test_a_broker_and_the_default_of_brokers() -> None:
    node = Node()
    # The cluster has a minimum of its own from the beginning, as it keeps eligible leaders.
    (minimum,) = node.describe(BROKER, "").configs
    assert (minimum.name, minimum.value) == ("min.insync.replicas", "1")
    assert node.alter(BROKER, "", ("log.retention.ms", SET, "7")) == 0
    assert node.alter(BROKER, "1", ("log.retention.ms", SET, "8")) == 0
    (default,) = node.describe(BROKER, "", "log.retention.ms").configs
    assert (default.value, default.config_source) == ("7", 3)
    (own,) = node.describe(BROKER, "1", "log.retention.ms", include_synonyms=True).configs
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [
        ("log.retention.ms", "8", 2),
        ("log.retention.ms", "7", 3),
        ("log.retention.hours", "1", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert node.config.log_config({}).retention_ms == 8
    assert node.alter(BROKER, "1", ("log.retention.ms", DELETE, None)) == 0
    assert node.config.log_config({}).retention_ms == 7


def test_a_group_has_its_own_pace() -> None:
    node = Node()
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    described = [(each.name, each.value, each.config_source) for each in node.describe(GROUP, "g").configs]
    assert described[:3] == [
        ("consumer.assignment.interval.ms", "0", 5),
        (interval, "5000", 5),
        (session, "45000", 5),
    ]
    assert {name.partition(".")[0] for name, _, _ in described[3:]} == {"share", "streams"}
    assert node.alter(GROUP, "g", (session, SET, "50000")) == 0
    (own,) = node.describe(GROUP, "g", session, include_synonyms=True).configs
    assert (own.value, own.config_source, own.read_only) == ("50000", 8, False)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == [
        (session, "50000", 8),
        (f"group.{session}", "45000", 5),
    ]
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    (listed,) = list_config_resources(request, node.context(1)).config_resources
    assert (listed.resource_type, listed.resource_name) == (GROUP, "g")
    assert GroupConfig().of_group(node.image.config(GROUP, "g")).consumer_session_timeout_ms == 50_000
    assert node.replace(GROUP, "g") == 0
    assert [each.value for each in node.describe(GROUP, "g").configs][1:3] == ["5000", "45000"]


@pytest.mark.parametrize(
    ("name", "value", "synonyms"),
    [
        (
            "share.session.timeout.ms",
            "50000",
            [("share.session.timeout.ms", "50000", 8), ("group.share.session.timeout.ms", "45000", 5)],
        ),
        (
            "share.isolation.level",
            "read_committed",
            [
                ("share.isolation.level", "read_committed", 8),
                ("share.isolation.level", "read_uncommitted", 5),
            ],
        ),
    ],
)
def test_what_groups_may_have_without_effect_is_shown_as_in_kafka(
    name: str, value: str, synonyms: list[tuple[str, str, int]]
) -> None:
    node = Node()
    assert node.alter(GROUP, "g", (name, SET, value)) == 0
    (own,) = node.describe(GROUP, "g", name, include_synonyms=True).configs
    assert (own.value, own.config_source) == (value, 8)
    assert [(each.name, each.value, each.source) for each in own.synonyms] == synonyms


@pytest.fixture
def levels() -> Iterator[None]:
    """Restore the loggers afterwards."""
    loggers = [logging.getLogger(name) for name in (None, "kcli.broker.node.broker")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("levels")
def test_loggers_have_levels() -> None:
    node, name = Node(), "kcli.broker.node.broker"
    assert node.alter(LOGGER, "1", ("root", SET, "WARN")) == 0
    assert node.alter(LOGGER, "1", (name, SET, "TRACE")) == 0
    (told,) = node.describe(LOGGER, "1", name, include_synonyms=True).configs
    assert (told.value, told.config_source, told.read_only, told.synonyms) == ("TRACE", 6, False, [])
    assert not told.is_sensitive
    assert logging.getLogger(name).isEnabledFor(5)
    assert node.alter(LOGGER, "1", (name, SET, "FATAL"), validate_only=True) == 0
    assert node.alter(LOGGER, "1", (name, DELETE, None)) == 0
    values = {each.name: each.value for each in node.describe(LOGGER, "1").configs}
    assert (values[name], values["root"]) == ("WARN", "WARN")
    assert {each.partition(".")[0] for each in values} - {"kafka"} == {"kcli", "root"}


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (("root", SET, "debug"), ErrorCode.INVALID_CONFIG),
        (("no.such.logger", SET, "DEBUG"), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("root", APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_levels_that_cannot_be(change: tuple[str, int, str | None], code: ErrorCode) -> None:
    node, before = Node(), logger_levels()
    assert node.alter(LOGGER, "1", change, ("kcli.broker.node.broker", SET, "TRACE")) == code
    assert logger_levels() == before
    assert node.replace(LOGGER, "1") == ErrorCode.INVALID_REQUEST


def test_there_are_no_subscriptions_to_metrics_of_clients() -> None:
    node = Node()
    result = node.describe(METRICS, "laptops")
    assert (result.error_code, result.configs) == (0, [])
    assert node.alter(METRICS, "laptops", ("interval.ms", SET, "60000")) == ErrorCode.INVALID_REQUEST
    assert node.replace(METRICS, "laptops") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("type", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_configuration_here(type: int, name: str, code: ErrorCode) -> None:
    node = Node()
    result = node.describe(type, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message
    expected = ErrorCode.INVALID_REQUEST if (type, name) == (TOPIC, "") else code
    assert node.alter(type, name, ("retention.ms", SET, "1")) == expected
    assert node.replace(type, name) == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([], ErrorCode.NONE),
    ],
)
def test_changes_that_are_malformed(changes: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    node = Node()
    assert node.alter(TOPIC, "a", *changes) == code
    assert node.image.topic_config("a") == {}


def test_validating_only_changes_nothing() -> None:
    node = Node()
    assert node.alter(TOPIC, "a", ("retention.ms", SET, "5"), validate_only=True) == 0
    assert node.image.topic_config("a") == {}


def test_a_resource_named_twice_is_refused_both_times() -> None:
    node = Node()
    change = incremental.AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=[change])
    other = incremental.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[])
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[resource, other, resource], validate_only=False
    )
    answers = incremental_alter_configs(request, node.context(1)).responses
    assert [answer.error_code for answer in answers] == [42, 0, 42]
    assert node.image.topic_config("a") == {}


def test_altering_in_the_old_way_replaces_all_values() -> None:
    node = Node()
    assert node.replace(TOPIC, "a", retention_ms="5", segment_ms="6") == 0
    assert node.replace(TOPIC, "a", segment_ms="7") == 0
    assert node.image.topic_config("a") == {"segment.ms": "7"}
    assert node.replace(TOPIC, "a", segment_ms=None) == ErrorCode.INVALID_REQUEST
    assert node.replace(BROKER, "1", log_retention_hours="7") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["1", ""])
def test_a_change_that_does_not_go_together_with_the_rest_is_refused(name: str) -> None:
    node = Node()
    nobody, one = ("max.connections.per.ip", SET, "0"), ("max.connections.per.ip.overrides", SET, "::1:1")
    assert node.alter(BROKER, name, nobody) == ErrorCode.INVALID_REQUEST
    assert node.replace(BROKER, name, max_connections_per_ip="0") == ErrorCode.INVALID_REQUEST
    assert node.alter(BROKER, name, nobody, one) == 0
    assert node.alter(BROKER, name, (one[0], DELETE, None)) == ErrorCode.INVALID_REQUEST
    assert node.alter(BROKER, name, ("num.replica.fetchers", SET, "3")) == ErrorCode.INVALID_REQUEST
    assert node.alter(BROKER, name, ("num.replica.fetchers", SET, "2")) == 0
    assert node.alter(BROKER, name, ("num.replica.fetchers", SET, "3")) == 0


def test_what_kafka_acts_on_and_kcli_does_not_is_stored_and_shown() -> None:
    node = Node()
    assert node.alter(BROKER, "", ("num.network.threads", SET, "5")) == 0
    assert node.alter(BROKER, "1", ("num.io.threads", SET, "9"), ("metric.reporters", APPEND, "x")) == 0
    names = ("metric.reporters", "num.io.threads", "num.network.threads")
    described = node.describe(BROKER, "1", *names, include_documentation=True).configs
    reporters = "org.apache.kafka.common.metrics.JmxReporter,x"
    assert [each.value for each in described] == [reporters, "9", "5"]
    assert [each.config_source for each in described] == [2, 2, 3]
    assert all(each.documentation.endswith(NO_EFFECT) and not each.read_only for each in described)
    (default,) = node.describe(BROKER, "", "num.network.threads").configs
    assert (default.name, default.value) == ("num.network.threads", "5")
    assert node.alter(BROKER, "1", ("num.io.threads", SET, "19")) == ErrorCode.INVALID_REQUEST
    assert node.replace(BROKER, "1", num_io_threads="10") == 0
    assert node.image.config(BROKER, "1") == {"num.io.threads": "10"}


@pytest.mark.parametrize(
    ("name", "value", "own", "default"),
    [
        ("listener.name.a.ssl.keystore.location", "/k", ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
        ("listener.name.a.ssl.keystore.location", "/broken", 42, ErrorCode.INVALID_REQUEST),
        ("ssl.keystore.location", "/k", ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        ("sasl.oauthbearer.scope", "s", ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        ("sasl.kerberos.min.time.before.relogin", "5", ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
        ("listener.name.a.max.connections", "5", ErrorCode.NONE, ErrorCode.NONE),
        ("zookeeper.connect", "localhost:2181", ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG),
        ("rsm.config.bucket", "b", ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG),
        ("no.such.name", "1", ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_closes_a_door_in_kafka_or_is_unknown_is_refused(
    name: str, value: str, own: ErrorCode, default: ErrorCode
) -> None:
    node = Node()
    assert node.alter(BROKER, "1", (name, SET, value)) == own
    assert node.alter(BROKER, "", (name, SET, value)) == default
    assert node.alter(BROKER, "1", (name, DELETE, None)) == 0


def test_names_of_other_releases_and_plug_ins_are_shown_without_their_values() -> None:
    node = Node()
    node._static = BrokerConfig.from_properties({"zookeeper.connect": "z:2181", "rsm.config.key": "secret"})
    for name in ("zookeeper.connect", "rsm.config.key"):
        (shown,) = node.describe(BROKER, "1", name).configs
        assert (shown.value, shown.is_sensitive, shown.config_type, shown.config_source) == (None, True, 0, 4)


@pytest.mark.parametrize(("controller_id", "other"), [(1, 0), (2, ErrorCode.INVALID_REQUEST)])
def test_only_the_controllers_node_takes_what_is_for_another(controller_id: int, other: int) -> None:
    node = Node(controller_id=controller_id)
    assert node.alter(BROKER, "2", ("max.connections", SET, "7")) == other
    assert node.replace(BROKER, "2", max_connections="8") == other
    assert node.image.config(BROKER, "2") == ({} if other else {"max.connections": "8"})
    assert node.alter(BROKER, "2", ("max.connections", SET, "many")) == ErrorCode.INVALID_REQUEST
    unknown = other or ErrorCode.BROKER_ID_NOT_REGISTERED
    assert node.alter(BROKER, "3", ("max.connections", SET, "7")) == unknown
    assert node.describe(BROKER, "2").error_code == ErrorCode.INVALID_REQUEST


def test_a_failure_of_the_whole_request_is_every_resources() -> None:
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=[])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    failed = Api("IncrementalAlterConfigs", "configs").failed
    assert failed is not None
    (answer,) = failed(request, error).responses
    assert (answer.error_code, answer.resource_name) == (56, "a")


@pytest.mark.parametrize(
    ("version", "types", "listed"),
    [
        (0, [], []),
        (1, [], [(TOPIC, "a"), *((type, name) for type in (BROKER, LOGGER) for name in "12")]),
        (1, [TOPIC], [(TOPIC, "a")]),
        (1, [BROKER], [(BROKER, "1"), (BROKER, "2")]),
        (1, [GROUP, LOGGER], [(LOGGER, "1"), (LOGGER, "2")]),
    ],
)
def test_listing(version: int, types: list[int], listed: list[tuple[int, str]]) -> None:
    request = ListConfigResourcesRequest(resource_types=types)
    response = list_config_resources(request, Node().context(version))
    assert [(each.resource_type, each.resource_name) for each in response.config_resources] == listed


def test_listing_a_type_that_nobody_knows() -> None:
    with pytest.raises(KafkaError) as caught:
        list_config_resources(ListConfigResourcesRequest(resource_types=[99]), Node().context(1))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
