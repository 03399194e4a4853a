"""The options of the data source: defaults, precedence, and every refusal of Spark's own source."""

from __future__ import annotations

import pytest

from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.datasource.reader_options import SourceOptions, source_options
from kcli.spark.source.ranges.offset_specs import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetSpec,
    OnNoMatch,
)
from kcli.spark.source.ranges.selection import Assign, Subscribe, SubscribePattern
from kcli.spark.source.ranges.trigger_limits import TriggerLimits
from kcli.spark.split import COLUMNS, OnCorrupt

MINIMUM = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)
OFFSETS = '{"orders":{"0":23}}'
TIMES = '{"orders":{"0":1000}}'


def batch(**options: str) -> SourceOptions:
    return source_options({**MINIMUM, **options})


def stream(**options: str) -> SourceOptions:
    return source_options({**MINIMUM, **options}, streaming=True)


def test_the_defaults_of_a_batch() -> None:
    options = batch()
    assert options.selection == Subscribe(("orders",))
    assert options.bootstrap == "localhost:9092"
    assert options.log_dirs == ()
    assert options.properties == {"client.id": "spark-kafka-source-kcli"}
    assert options.rules.starting == Earliest()
    assert options.rules.ending == Latest()
    assert options.rules.fail_on_data_loss
    assert not options.rules.read_committed
    assert options.rules.on_no_match is OnNoMatch.ERROR
    assert options.reading.columns == COLUMNS[:-1]
    assert options.triggers == TriggerLimits(None, None, 900_000)
    assert (options.offset_attempts, options.offset_retry_ms) == (3, 10)
    assert options.notes == ()


def test_a_stream_starts_at_latest() -> None:
    assert stream().rules.starting == Latest()


def test_names_are_matched_whatever_their_case() -> None:
    options = source_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBEPATTERN": "o.*", "failondataloss": "FALSE",
         "INCLUDEHEADERS": "true", "minpartitions": "7"}
    )  # fmt: skip
    assert options.selection == SubscribePattern("o.*")
    assert options.bootstrap == "h:1"
    assert not options.rules.fail_on_data_loss
    assert options.reading.columns == COLUMNS
    assert options.limits.min_partitions == 7


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, Earliest()),
        ({"startingOffsets": " EARLIEST "}, Earliest()),
        ({"startingOffsets": OFFSETS}, AtOffsets({ORDERS_0: 23})),
        ({"startingOffsets": OFFSETS, "startingOffsetsByTimestamp": TIMES}, AtTimestamps({ORDERS_0: 1000})),
        (
            {"startingOffsets": OFFSETS, "startingOffsetsByTimestamp": TIMES, "startingTimestamp": "5"},
            AtTimestamp(5),
        ),
    ],
)
def test_the_most_specific_start_wins(options: dict[str, str], expected: OffsetSpec) -> None:
    assert batch(**options).rules.starting == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endingOffsets": "latest"}, Latest()),
        ({"endingOffsets": '{"orders":{"0":-1}}'}, AtOffsets({ORDERS_0: -1})),
        ({"endingOffsets": OFFSETS, "endingOffsetsByTimestamp": TIMES}, AtTimestamps({ORDERS_0: 1000})),
        ({"endingOffsetsByTimestamp": TIMES, "endingTimestamp": "6"}, AtTimestamp(6)),
    ],
)
def test_the_most_specific_end_wins(options: dict[str, str], expected: OffsetSpec) -> None:
    assert batch(**options).rules.ending == expected


def test_partitions_are_assigned_by_json() -> None:
    options = source_options({"kafka.bootstrap.servers": "h:1", "assign": '{"orders":[1,0]}'})
    assert options.selection == Assign((ORDERS_0, TopicPartition("orders", 1)))


def test_properties_lose_their_prefix_and_what_is_ours() -> None:
    options = batch(**{"kafka.Client.Rack": "r1", "kafka.isolation.level": "read_committed",
                       "groupIdPrefix": "team"})  # fmt: skip
    assert options.properties == {"client.rack": "r1", "client.id": "team-kcli"}
    assert options.rules.read_committed
    assert options.reading.read_committed


def test_a_group_id_is_no_more_than_a_client_id() -> None:
    options = batch(**{"kafka.group.id": "g"})
    assert options.properties == {"client.id": "g-kcli"}
    assert options.notes == ("no group is joined: `kafka.group.id` only begins the client id",)


def test_the_longest_poll_limits_the_client() -> None:
    options = batch(**{"kafkaConsumer.pollTimeoutMs": "1500"})
    assert options.properties["default.api.timeout.ms"] == "1500"


def test_log_directories_stand_for_brokers() -> None:
    options = source_options({"logDirs": "/a, /b", "subscribe": "t"})
    assert options.log_dirs == ("/a", "/b")
    assert options.bootstrap is None


def test_what_is_ours_is_read() -> None:
    options = batch(columns="value,offset", includeHeaders="true", onCorrupt="skip", splitBytes="1000",
                    pushdown="true", isolationLevel="READ_COMMITTED")  # fmt: skip
    assert options.reading.columns == ("value", "offset", "headers")
    assert options.reading.on_corrupt is OnCorrupt.SKIP
    assert options.limits.split_bytes == 1000
    assert options.pushdown
    assert options.reading.read_committed


def test_triggers_are_read_and_have_no_effect_in_a_batch() -> None:
    given = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1m"}
    assert stream(**given).triggers == TriggerLimits(10, 5, 60_000)
    assert stream(**given).notes == ()
    assert batch(**given).notes == tuple(f"`{name}` has no effect in a batch" for name in given)


def test_passwords_are_not_shown() -> None:
    assert "hunter2" not in repr(batch(**{"kafka.sasl.jaas.config": 'password="hunter2"'}))


BOOTSTRAP = {"kafka.bootstrap.servers": "h:1"}
REFUSED = {
    "nothing selected": (BOOTSTRAP, "none of the options `assign`"),
    "two selections": ({**MINIMUM, "assign": '{"t":[0]}'}, "more than one of the options"),
    "no place": ({"subscribe": "t"}, "neither of the options `kafka.bootstrap.servers`"),
    "two places": ({**MINIMUM, "logDirs": "/a"}, "both of the options"),
    "no topic": ({**BOOTSTRAP, "subscribe": " , "}, "`subscribe` names nothing"),
    "no pattern": ({**BOOTSTRAP, "subscribePattern": " "}, "`subscribePattern` names nothing"),
    "no partitions": ({**BOOTSTRAP, "assign": "{}"}, "`assign` names nothing"),
    "a list for partitions": ({**BOOTSTRAP, "assign": "orders"}, "invalid value for `assign`"),
    "a bad pattern": ({**BOOTSTRAP, "subscribePattern": "("}, "invalid topic pattern"),
    "start at latest": ({**MINIMUM, "startingOffsets": "latest"}, "cannot start at latest"),
    "start one at latest": (
        {**MINIMUM, "startingOffsets": '{"orders":{"0":-1}}'}, "cannot start orders-0 at latest",
    ),
    "end at earliest": ({**MINIMUM, "endingOffsets": "earliest"}, "cannot end at earliest"),
    "end one at earliest": (
        {**MINIMUM, "endingOffsets": '{"orders":{"0":-2}}'}, "cannot end orders-0 at earliest",
    ),
    "other partitions at the end": (
        {**MINIMUM, "startingOffsets": OFFSETS, "endingOffsets": '{"orders":{"1":30}}'},
        "only one of the starting and ending offsets names orders-0, orders-1",
    ),
    "no number": ({**MINIMUM, "startingTimestamp": "noon"}, "invalid value for `startingTimestamp`"),
    "a bad strategy": (
        {**MINIMUM, "startingOffsetsByTimestampStrategy": "guess"},
        "invalid value for `startingOffsetsByTimestampStrategy`",
    ),
    "no partitions at least": ({**MINIMUM, "minPartitions": "0"}, "`minPartitions` must be positive"),
    "no records at most": ({**MINIMUM, "maxRecordsPerPartition": "-1"}, "`maxRecordsPerPartition` must be"),
    "no boolean": ({**MINIMUM, "failOnDataLoss": "yes"}, "invalid value for `failOnDataLoss`"),
    "min above max": (
        {**MINIMUM, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
        "`minOffsetsPerTrigger` is higher than `maxOffsetsPerTrigger`: 9 > 8",
    ),
    "a bad level": ({**MINIMUM, "kafka.isolation.level": "snapshot"}, "invalid isolation level: snapshot"),
    "no such column": ({**MINIMUM, "columns": "value,size"}, "no such column: size"),
    **{
        name: ({**MINIMUM, f"kafka.{name}": "x"}, f"`kafka.{name}` is not supported")
        for name in (
            "auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit",
            "interceptor.classes",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_batch_refuses(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(UsageError) as refused:
        source_options(options)
    assert message in refused.value.message


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}` is not valid for a stream"):
        stream(**{name: "latest"})


def test_an_end_before_the_start_is_refused_at_once() -> None:
    with pytest.raises(Exception, match="the start of orders-0 is behind its end: 23 > 5"):
        batch(startingOffsets=OFFSETS, endingOffsets='{"orders":{"0":5}}')


@pytest.mark.parametrize(("said", "fails"), [(None, True), ("true", True), ("false", False)])
def test_tasks_are_told_whether_lost_offsets_are_a_failure(said: str | None, fails: bool) -> None:
    options = source_options(MINIMUM if said is None else {**MINIMUM, "failOnDataLoss": said})
    assert (options.rules.fail_on_data_loss, options.reading.fail_on_data_loss) == (fails, fails)
