"""Topic descriptions page by page and lists of resources, asked for by franz-go request by request.

Against kcli, and against Apache Kafka to prove the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode
from tests.support.franz_requests import franz_request
from tests.support.producing import create_topic, delete_topic
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

METADATA, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES, DESCRIBE_TOPIC_PARTITIONS = 3, 44, 74, 75
TOPICS = {"franz-a": 3, "franz-b": 2}
MISSING, IMPOSSIBLE = "franz-c", "franz d"
GROUP = "franz-group"
TOPIC, BROKER, GROUP_CONFIG = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP


@pytest.fixture(scope="module", params=["apache_kafka", "kcli_broker"])
def broker(request: pytest.FixtureRequest) -> Iterator[KcliBroker | ApacheKafka]:
    """Each of the two brokers, with the topics."""
    found: KcliBroker | ApacheKafka = request.getfixturevalue(request.param)
    for name, partitions in TOPICS.items():
        create_topic(found.bootstrap, name, partitions)
    yield found
    for name in TOPICS:
        delete_topic(found.bootstrap, name)


# --- DescribeTopicPartitions -------------------------------------------------------------------------


def describe(
    broker: KcliBroker | ApacheKafka, *topics: str, limit: int = 2000, cursor: object = None
) -> dict[str, Any]:
    return franz_request(
        broker.bootstrap,
        *(DESCRIBE_TOPIC_PARTITIONS, 0),
        Topics=[{"Topic": name} for name in topics],
        ResponsePartitionLimit=limit,
        Cursor=cursor,
    )


def told(answer: dict[str, Any]) -> list[tuple[str, int, list[int]]]:
    """By topic its name, its error and the numbers of its partitions."""
    return [
        (topic["Topic"], topic["ErrorCode"], [each["Partition"] for each in topic["Partitions"] or ()])
        for topic in answer["Topics"]
    ]


def metadata(broker: KcliBroker | ApacheKafka, topics: list[dict[str, str]] | None) -> list[dict[str, Any]]:
    """What Metadata says of topics, or of all."""
    answer = franz_request(
        broker.bootstrap, METADATA, 12, Topics=topics, IncludeTopicAuthorizedOperations=True
    )
    found: list[dict[str, Any]] = answer["Topics"]
    return found


def test_a_topic_is_described_as_metadata_has_it(broker: KcliBroker | ApacheKafka) -> None:
    (topic,) = describe(broker, "franz-b")["Topics"]
    (known,) = metadata(broker, [{"Topic": "franz-b"}])
    partitions = topic.pop("Partitions")
    assert topic == {name: known[name] for name in topic}
    assert any(topic["TopicID"])
    assert [each["Partition"] for each in partitions] == [0, 1]
    expected = {"ErrorCode": 0, "LeaderID": 1, "Replicas": [1], "ISR": [1]}
    for each, same in zip(partitions, sorted(known["Partitions"], key=_number), strict=True):
        assert {name: each[name] for name in expected} == expected
        assert each["LeaderEpoch"] == same["LeaderEpoch"] >= 0
        assert each["EligibleLeaderReplicas"] == each["LastKnownELR"] == []
        assert not each["OfflineReplicas"]


def _number(partition: dict[str, Any]) -> int:
    number: int = partition["Partition"]
    return number


def test_cursors_lead_through_all_pages(broker: KcliBroker | ApacheKafka) -> None:
    """The names come in their order, however they were asked for; what is not there takes no room."""
    pages = []
    cursor = None
    while not pages or cursor is not None:
        answer = describe(broker, MISSING, "franz-b", "franz-a", "franz-b", limit=2, cursor=cursor)
        cursor = answer["NextCursor"]
        pages.append((told(answer), cursor and (cursor["Topic"], cursor["Partition"])))
    unknown = (MISSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert pages == [
        ([("franz-a", 0, [0, 1])], ("franz-a", 2)),
        ([("franz-a", 0, [2]), ("franz-b", 0, [0])], ("franz-b", 1)),
        ([("franz-b", 0, [1]), unknown], None),
    ]


def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(broker: KcliBroker | ApacheKafka) -> None:
    answer = describe(broker, "franz-a", "franz-b", limit=3)
    assert told(answer) == [("franz-a", 0, [0, 1, 2])]
    assert answer["NextCursor"] == {"Topic": "franz-b", "Partition": 0}


def test_without_names_all_topics_from_the_cursor_on_are_told(broker: KcliBroker | ApacheKafka) -> None:
    every = [name for name, _, _ in told(describe(broker))]
    assert every == sorted(each["Topic"] for each in metadata(broker, None))
    rest = told(describe(broker, cursor={"Topic": "franz-a", "Partition": 1}))
    assert [name for name, _, _ in rest] == every[every.index("franz-a") :]
    assert rest[:2] == [("franz-a", 0, [1, 2]), ("franz-b", 0, [0, 1])]
    # A topic that was deleted between two pages is passed over.
    after = told(describe(broker, cursor={"Topic": "franz-aa", "Partition": 1}))
    assert after == rest[1:]


@pytest.mark.parametrize(
    ("topics", "cursor", "code"),
    [
        ((MISSING,), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((IMPOSSIBLE,), None, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("franz-a", "franz-b"), ("franz-aa", 0), ErrorCode.INVALID_REQUEST),
        (("franz-a", "franz-b"), ("franz-a", -1), ErrorCode.INVALID_REQUEST),
    ],
    ids=["unknown", "impossible", "cursor-elsewhere", "cursor-before-the-first"],
)
def test_what_cannot_be_described_is_told_by_topic(
    broker: KcliBroker | ApacheKafka, topics: tuple[str, ...], cursor: tuple[str, int] | None, code: ErrorCode
) -> None:
    place = None if cursor is None else {"Topic": cursor[0], "Partition": cursor[1]}
    answer = describe(broker, *topics, cursor=place)
    assert told(answer) == [(name, code, []) for name in topics]
    assert answer["NextCursor"] is None
    assert not any(any(topic["TopicID"]) for topic in answer["Topics"])


# --- ListConfigResources -----------------------------------------------------------------------------


def resources(
    broker: KcliBroker | ApacheKafka, *types: int, version: int = 1
) -> tuple[int, set[tuple[int, str]]]:
    """The error, and what there is of each type."""
    answer = franz_request(broker.bootstrap, LIST_CONFIG_RESOURCES, version, ResourceTypes=list(types))
    found = [(each["Type"], each["Name"]) for each in answer["ConfigResources"] or ()]
    assert len(set(found)) == len(found)
    return answer["ErrorCode"], set(found)


def alter_group(broker: KcliBroker | ApacheKafka, operation: str, value: str | None) -> None:
    config = {"Name": "consumer.session.timeout.ms", "Op": operation, "Value": value}
    answer = franz_request(
        broker.bootstrap,
        *(INCREMENTAL_ALTER_CONFIGS, 1),
        Resources=[{"ResourceType": "GROUP_CONFIG", "ResourceName": GROUP, "Configs": [config]}],
    )
    assert [each["ErrorCode"] for each in answer["Resources"]] == [0], answer


def test_topics_and_brokers_are_listed(broker: KcliBroker | ApacheKafka) -> None:
    known = {(TOPIC, each["Topic"]) for each in metadata(broker, None)}
    assert known >= {(TOPIC, name) for name in TOPICS}
    assert resources(broker, TOPIC) == (0, known)
    assert resources(broker, BROKER) == (0, {(BROKER, "1")})
    assert resources(broker, BROKER, TOPIC) == (0, known | {(BROKER, "1")})


def test_groups_are_listed_while_they_have_a_configuration(broker: KcliBroker | ApacheKafka) -> None:
    def is_listed() -> bool:
        error, found = resources(broker, GROUP_CONFIG)
        assert (error, {type for type, _ in found} - {GROUP_CONFIG}) == (0, set())
        return (GROUP_CONFIG, GROUP) in found

    assert not is_listed()
    alter_group(broker, "SET", "10000")
    eventually(is_listed, "the group is listed")
    alter_group(broker, "DELETE", None)
    eventually(lambda: not is_listed(), "the group is not listed any more")


def test_who_names_no_type_gets_all_of_them(broker: KcliBroker | ApacheKafka) -> None:
    """Loggers among them where a broker has such; kcli's has none that could be configured."""
    every: set[tuple[int, str]] = set()
    for kind in ConfigResourceType:
        if kind is not ConfigResourceType.UNKNOWN:
            error, found = resources(broker, kind)
            assert (error, {type for type, _ in found} - {kind}) == (0, set())
            every |= found
    assert resources(broker) == (0, every)


@pytest.mark.parametrize("types", [(0,), (3,), (TOPIC, 64)], ids=str)
def test_a_type_that_there_is_not_is_refused(
    broker: KcliBroker | ApacheKafka, types: tuple[int, ...]
) -> None:
    assert resources(broker, *types) == (ErrorCode.UNSUPPORTED_VERSION, set())


def test_the_first_version_lists_metrics_of_clients_alone(broker: KcliBroker | ApacheKafka) -> None:
    assert resources(broker, version=0) == resources(broker, ConfigResourceType.CLIENT_METRICS)
