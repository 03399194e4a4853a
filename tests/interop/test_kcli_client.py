"""kcli's own client against Apache Kafka and against kcli, with librdkafka as the judge of what it did."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import confluent_kafka
import pytest
import trio
from confluent_kafka import Producer as LibrdkafkaProducer

from kcli.client import admin
from kcli.client.admin import ConfigAlteration, ConfigOperation, ConfigResource, ConfigResourceType, NewTopic
from kcli.client.client import Client, connect
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.subscription_state import SubscriptionPattern
from kcli.client.producer.producer import Producer
from kcli.protocol.configs import ConfigSource
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from tests.support.config_differences import DIFFERENCES, NEVER_SHOWN_BY_KAFKA, VALUES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.interop.conftest import AnyBroker
    from tests.support.apache_kafka import ApacheKafka
    from tests.support.kcli_broker import KcliBroker

pytestmark = pytest.mark.interop

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 120
T = TypeVar("T")


@pytest.fixture
def bootstrap(broker: AnyBroker) -> str:
    """The address of each of the two brokers."""
    return broker.bootstrap


async def client_pause() -> None:
    """Let a real broker get on with it before it is asked again."""
    await trio.sleep(0.05)


async def first(get: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool]) -> T:
    """The first that is wanted: a controller answers before the broker that is asked has heard of it."""
    while not is_wanted(got := await get()):
        await client_pause()
    return got


class Topic:
    """A topic with a name nobody else uses, deleted on the way out.

    Its leaders lead when it is there: metadata name them before, and who then produces without asking for
    an answer loses records.
    """

    def __init__(self, client: Client, partitions: int = 1, **configs: str) -> None:
        self.name = f"client-{uuid.uuid4().hex[:8]}"
        self._partitions = [TopicPartition(self.name, index) for index in range(partitions)]
        self._client = client
        self._new = NewTopic(
            self.name, partitions, 1, configs={k.replace("_", "."): v for k, v in configs.items()}
        )

    async def __aenter__(self) -> str:
        created = (await admin.create_topics(self._client, [self._new]))[self.name]
        assert isinstance(created, admin.TopicCreated), created
        with trio.fail_after(SECONDS):
            while not await self._is_led():
                await client_pause()
        return self.name

    async def __aexit__(self, *_: object) -> None:
        await admin.delete_topics(self._client, [self.name])

    async def _is_led(self) -> bool:
        found = await admin.list_offsets(self._client, dict.fromkeys(self._partitions, admin.LATEST))
        return not any(isinstance(end, KafkaError) for end in found.values())


async def read_all(client: Client, topic: str, partitions: int = 1, **settings: str) -> AsyncIterator[tuple]:  # type: ignore[type-arg]
    """Yield (partition, record) of a topic from its beginning to its end."""
    assigned = [TopicPartition(topic, index) for index in range(partitions)]
    config = ConsumerConfig(auto_offset_reset="earliest", **settings)  # type: ignore[arg-type]
    async with Consumer(client, config) as consumer:
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        while any((consumer.position_nowait(partition) or 0) < end for partition, end in ends.items()):
            for part in await consumer.poll():
                for record in part.records:
                    yield part.partition.partition, record


async def test_topics_and_configs_live_and_die(bootstrap: str) -> None:
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client, 2, retention_ms="100000") as topic:
            again = await admin.create_topics(client, [NewTopic(topic, 1, 1), NewTopic("bad name", 1, 1)])
            codes = {name: error.code for name, error in again.items() if isinstance(error, KafkaError)}
            assert codes == {
                topic: ErrorCode.TOPIC_ALREADY_EXISTS,
                "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            assert topic in [listing.name for listing in await admin.list_topics(client)]
            grown = await admin.create_partitions(client, {topic: admin.NewPartitions(3)})
            assert grown == {topic: None}
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            change = ConfigAlteration("segment.bytes", ConfigOperation.SET, "1048576")
            assert await admin.incremental_alter_configs(client, {resource: [change]}) == {resource: None}

            async def values() -> dict[str, str | None]:
                entries = (await admin.describe_configs(client, [resource], include_synonyms=True))[resource]
                assert not isinstance(entries, KafkaError)
                return {entry.name: entry.value for entry in entries}

            found = await first(values, lambda found: found["segment.bytes"] == "1048576")
            assert found["retention.ms"] == "100000"
            # They are there by now: they were added before the configuration was changed.
            described = (await admin.describe_topics(client, [topic, "no-such-topic"]))[topic]
            assert isinstance(described, admin.TopicDescription)
            assert [part.partition for part in described.partitions] == [0, 1, 2]
            cluster = await admin.describe_cluster(client)
            versions = await admin.api_versions(client)
            directories = await admin.describe_log_dirs(client)
            assert set(versions) == set(directories) == {node.node_id for node in cluster.nodes}
            gone = await admin.delete_topics(client, [topic, "no-such-topic"])
            assert gone[topic] is None
            assert isinstance(gone["no-such-topic"], KafkaError)


@pytest.mark.parametrize("codec", CODECS)
async def test_records_come_back_as_they_were_sent(codec: str, bootstrap: str) -> None:
    sent = [
        (b"k%d" % (number % 7) if number % 3 else None, None if number % 11 == 0 else b"v%d" % number * 20)
        for number in range(5000)
    ]
    headers = [("name", b"\x00\xff"), ("name", None), ("ünï", b"")]
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client, 3, retention_ms="-1") as topic:
            config = ProducerConfig(compression_type=codec, batch_size=100_000)
            async with Producer(client, config) as producer:
                deliveries = [
                    await producer.send(
                        topic, value, key, timestamp=1_700_000_000_000 + number, headers=headers
                    )
                    for number, (key, value) in enumerate(sent)
                ]
            where = {(one.partition, one.offset): number for number, one in
                     enumerate(delivery.result() for delivery in deliveries)}  # fmt: skip
            assert len(where) == 5000
            count = 0
            async for partition, record in read_all(client, topic, 3):
                number = where[partition, record.offset]
                assert (record.key, record.value) == sent[number]
                assert record.timestamp == 1_700_000_000_000 + number
                assert list(record.headers) == headers
                count += 1
            assert count == 5000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_every_acks_setting_delivers(acks: str, bootstrap: str) -> None:
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client) as topic:
            async with Producer(client, ProducerConfig(acks=acks)) as producer:
                for number in range(1000):
                    await producer.send(topic, b"%d" % number)
            end = TopicPartition(topic, 0)
            while (await admin.list_offsets(client, {end: admin.LATEST}))[end].offset < 1000:  # type: ignore[union-attr]
                await client_pause()
            values = [record.value async for _, record in read_all(client, topic)]
            assert values == [b"%d" % number for number in range(1000)]


async def test_large_batches_are_split_for_a_small_topic_limit(bootstrap: str) -> None:
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client, max_message_bytes="10240") as topic:
            async with Producer(client, ProducerConfig(batch_size=100_000, linger_ms=50)) as producer:
                deliveries = [await producer.send(topic, b"%05d" % number * 20) for number in range(5000)]
            assert [delivery.result().offset for delivery in deliveries] == list(range(5000))
            values = [record.value async for _, record in read_all(client, topic)]
            assert values == [b"%05d" % number * 20 for number in range(5000)]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("murmur2", "murmur2_random"), ("consistent_random", "consistent_random"), ("fnv1a", "fnv1a_random")],
)
async def test_keys_go_where_librdkafka_puts_them(ours: str, theirs: str, bootstrap: str) -> None:
    keys = [b"key-%d" % number for number in range(100)]
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client, 6) as topic:
            async with Producer(client, ProducerConfig(partitioner=ours)) as producer:
                for key in keys:
                    await producer.send(topic, b"ours", key)
            other = LibrdkafkaProducer({"bootstrap.servers": bootstrap, "partitioner": theirs})
            for key in keys:
                other.produce(topic, b"theirs", key)
            assert await trio.to_thread.run_sync(other.flush, SECONDS) == 0
            placed: dict[bytes, dict[bytes, int]] = {b"ours": {}, b"theirs": {}}
            async for partition, record in read_all(client, topic, 6):
                placed[record.value][record.key] = partition
            assert len(placed[b"ours"]) == 100
            assert placed[b"ours"] == placed[b"theirs"]


async def test_positions_times_and_deleted_records(bootstrap: str) -> None:
    with trio.fail_after(SECONDS):
        # The records are dated years back: retention would delete them at any moment.
        async with connect(bootstrap) as client, Topic(client, retention_ms="-1") as topic:
            partition = TopicPartition(topic, 0)
            async with Producer(client, ProducerConfig(batch_size=200)) as producer:
                for number in range(100):
                    await producer.send(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
            async with Consumer(client, ConsumerConfig(auto_offset_reset="earliest")) as consumer:
                consumer.assign([partition])
                found = await consumer.offsets_for_times({partition: 1_700_000_000_000 + 41_500})
                assert found[partition] is not None
                assert found[partition].offset == 42
                assert await admin.delete_records(client, {partition: 30}) == {partition: 30}
                assert await consumer.beginning_offsets([partition]) == {partition: 30}
                consumer.seek(partition, 5)
                # Where the position only moves there is nothing yet.
                (part,) = await first(lambda: consumer.poll(1), bool)
                assert part.records[0].offset == 30
                consumer.seek_to_end(partition)
                assert await consumer.position(partition) == 100
                refused = (await admin.delete_records(client, {partition: 500}))[partition]
                assert isinstance(refused, KafkaError)
                assert refused.code is ErrorCode.OFFSET_OUT_OF_RANGE


def write_transactions(bootstrap: str, topic: str) -> None:
    """Commit, abort and commit again through librdkafka."""
    producer = LibrdkafkaProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer", "linger.ms": 0}
    )
    producer.init_transactions(SECONDS)
    for turn, finish in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d-%d" % (turn, number))
        producer.flush(SECONDS)
        finish(SECONDS)


async def stable_ends(client: Client, partition: TopicPartition) -> dict[TopicPartition, int]:
    """The offset up to which no transaction is open."""
    found = await admin.list_offsets(client, {partition: admin.LATEST}, read_committed=True)
    return {key: end.offset for key, end in found.items() if not isinstance(end, KafkaError)}


async def described(bootstrap: str, name: str) -> dict[str, admin.ConfigEntry]:
    """The configurations of a broker by name, with synonyms and documentation."""
    resource = ConfigResource(ConfigResourceType.BROKER, name)
    async with connect(bootstrap) as client:
        found = await admin.describe_configs(
            client, [resource], include_synonyms=True, include_documentation=True
        )
    entries = found[resource]
    assert not isinstance(entries, KafkaError)
    return {entry.name: entry for entry in entries}


def shape(entry: admin.ConfigEntry) -> dict[str, object]:
    """What does not depend on what was set."""
    defaults = [each for each in entry.synonyms if each.source is ConfigSource.DEFAULT_CONFIG]
    return {
        "type": entry.type,
        "read only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "default": [(each.name, each.value) for each in defaults],
    }


async def test_every_configuration_of_a_broker_is_that_of_apache_kafka(
    apache_kafka: ApacheKafka, kcli_broker: KcliBroker
) -> None:
    with trio.fail_after(SECONDS):
        theirs, ours = [await described(each.bootstrap, "1") for each in (apache_kafka, kcli_broker)]
    assert ours.keys() - theirs.keys() == NEVER_SHOWN_BY_KAFKA.keys()
    assert len(theirs) >= 340
    assert theirs.keys() <= ours.keys()
    differing = {
        (name, what)
        for name, entry in theirs.items()
        for what, value in shape(entry).items()
        if value != shape(ours[name])[what]
    }
    assert differing == DIFFERENCES.keys()
    documented = [(theirs[name].documentation, ours[name].documentation) for name in theirs]
    assert all(own and own != kafkas for kafkas, own in documented)


async def verdict(client: Client, node: str, name: str, value: str) -> ErrorCode:
    resource = ConfigResource(ConfigResourceType.BROKER, node)
    change = ConfigAlteration(name, ConfigOperation.SET, value)
    answer = await admin.incremental_alter_configs(client, {resource: [change]}, validate_only=True)
    error = answer[resource]
    return ErrorCode.NONE if error is None else error.code


async def test_a_broker_takes_the_values_that_apache_kafka_takes(
    apache_kafka: ApacheKafka, kcli_broker: KcliBroker
) -> None:
    differing = set()
    with trio.fail_after(SECONDS):
        async with connect(apache_kafka.bootstrap) as theirs, connect(kcli_broker.bootstrap) as ours:
            for name, values in VALUES.items():
                for value in values:
                    for node in ("1", ""):
                        told = (
                            await verdict(theirs, node, name, value),
                            await verdict(ours, node, name, value),
                        )
                        differing |= {(name, value)} if told[0] is not told[1] else set()
    assert differing == VERDICTS.keys()


async def test_aborted_transactions_are_withheld_under_read_committed(apache_kafka: ApacheKafka) -> None:
    with trio.fail_after(SECONDS):
        async with connect(apache_kafka.bootstrap) as client, Topic(client) as topic:
            await trio.to_thread.run_sync(write_transactions, apache_kafka.bootstrap, topic)
            committed = [b"%d-%d" % (turn, number) for turn in (0, 2) for number in range(10)]
            everything = [b"%d-%d" % (turn, number) for turn in range(3) for number in range(10)]
            # The markers of transactions come after the answer to the client that ends them.
            end = TopicPartition(topic, 0)
            all_stable = {end: len(everything) + 3}
            await first(lambda: stable_ends(client, end), lambda found: found == all_stable)
            values = [
                record.value async for _, record in read_all(client, topic, isolation_level="read_committed")
            ]
            assert values == committed
            assert [record.value async for _, record in read_all(client, topic)] == everything


async def test_librdkafka_reads_what_the_producer_wrote(bootstrap: str) -> None:
    def read(topic: str, count: int) -> list[bytes]:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            # Closing would wait for a group coordinator to take the offsets.
            "enable.auto.commit": False,
            "check.crcs": True,
        }
        with closing(confluent_kafka.Consumer(settings)) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            messages = []
            deadline = time.monotonic() + SECONDS
            while len(messages) < count:
                assert time.monotonic() < deadline, f"{len(messages)} of {count} records"
                messages += [one for one in consumer.consume(count, 5.0) if one.error() is None]
            return [one.value() for one in messages]

    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client) as topic:
            for codec in CODECS:
                async with Producer(client, ProducerConfig(compression_type=codec)) as producer:
                    for number in range(200):
                        await producer.send(topic, b"%s-%d" % (codec.encode(), number))
            values = await trio.to_thread.run_sync(read, topic, 1000)
            assert values == [
                b"%s-%d" % (codec.encode(), number) for codec in CODECS for number in range(200)
            ]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_a_member_of_the_consumer_protocol_reads_what_the_broker_matches(
    bootstrap: str, assignor: str
) -> None:
    """Commits go on where the member before ended; a static one comes back under its instance id."""
    with trio.fail_after(SECONDS):
        async with connect(bootstrap) as client, Topic(client, 2) as one, Topic(client) as other:
            config = ConsumerConfig(
                group_id=f"of-{one}",
                group_protocol="consumer",
                group_remote_assignor=assignor,
                group_instance_id="static",
                auto_offset_reset="earliest",
            )
            async with Producer(client, ProducerConfig()) as producer:
                for topic in (one, other):
                    await producer.send(topic, b"1")
            expression = SubscriptionPattern(f"{one}|{other[:-1]}[0-9a-f]")
            for value in (b"1", b"2"):
                async with Consumer(client, config) as consumer:
                    consumer.subscribe(expression)
                    read: dict[str, list[bytes | None]] = {}
                    while read.keys() != {one, other}:
                        for part in await consumer.poll():
                            read.setdefault(part.partition.topic, []).extend(
                                record.value for record in part.records
                            )
                    assert read == {one: [value], other: [value]}
                    assert consumer.subscription == {one, other}
                    groups = await admin.describe_groups(client, [config.group_id])
                    group = groups[config.group_id]
                    assert isinstance(group, admin.GroupDescription)
                    assert (group.type, group.state, group.assignor) == ("Consumer", "Stable", assignor)
                    assert [member.instance_id for member in group.members] == ["static"]
                    assert [member.subscribed_regex for member in group.members] == [expression.expression]
                async with Producer(client, ProducerConfig()) as producer:
                    for topic in (one, other):
                        await producer.send(topic, b"2")
