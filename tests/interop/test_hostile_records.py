"""Hostile records: bombs and lies inside Produce requests that are themselves well formed.

Every codec's bomb, in every format, on topics where records have to be read: compacted, stored by another
codec, converted from the formats before 0.11. The broker refuses them in bounded time and memory, and goes on
serving others meanwhile; nothing reaches the log. What it did take unread, it can still be asked for.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.message_set import MessageSetBuilder
from tests.broker.records import fetch_request
from tests.support.besieged_broker import BesiegedBroker
from tests.support.hostile_frames import damaged, flipped
from tests.support.hostile_records import (
    FIELDS,
    MEGABYTE,
    batch,
    bomb,
    entries,
    keyed_records,
    now_ms,
    produce_request,
    snappy_that_claims,
    tiny_records,
    wrapper,
)
from tests.support.kcli_broker import KcliBroker
from tests.support.pinger import Pinger
from tests.support.producing import create_topic
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kcli.protocol.messages.produce import PartitionProduceResponse

pytestmark = pytest.mark.interop

PEAK_BYTES = 640 * MEGABYTE
"""One batch is read at a time, of at most 128 MB, in a few copies."""
ANSWER_SECONDS = 60.0
PING_WORK_MS = 1000
"""Decompressors that do not let go of the interpreter hold up others for as long as 128 MB take them: what
the broker works meanwhile is that time, however busy the machine is. Measured: 60, where little time is left
for it 100."""
MILLIONS = 15_000_000
MEASURED: list[tuple[float, int]] = []
EXAMPLES = 8 * settings().max_examples

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
BOMB_SIZES = {Codec.GZIP: 8192, Codec.SNAPPY: 512, Codec.LZ4: 4096, Codec.ZSTD: 65_536}
"""Megabytes that come out."""
LARGE = {"max.message.bytes": "90000000"}
READ_TOPICS = {
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "lz4"},
    "uncompressed": {"compression.type": "uncompressed"},
    "dated": {"message.timestamp.before.max.ms": "1000000"},
}
SPECIMEN_RECORDS = [(b"key", b"value"), (b"other", b""), (b"", b"x" * 100)]


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BesiegedBroker]:
    # Lies about timestamps make records old: what retention deletes is no client's doing.
    broker = KcliBroker(tmp_path_factory.mktemp("bombed"), settings={"log.retention.ms": "-1"}).start()
    besieged = BesiegedBroker(broker, peak_bytes=PEAK_BYTES, answer_seconds=ANSWER_SECONDS)
    for name, configs in READ_TOPICS.items():
        besieged.create_topic(name, configs={**LARGE, **configs})
    besieged.create_topic("plain", configs=LARGE)
    yield besieged
    besieged.close()
    assert broker.stop() == 0


@pytest.fixture(autouse=True)
def unharmed(besieged: BesiegedBroker) -> Iterator[None]:
    """After each test: no traceback in the broker's log, and memory below the bound."""
    besieged.reset_peak()
    yield
    besieged.check_log()
    besieged.check_memory()


def produce(
    besieged: BesiegedBroker, topic: str, records: bytes, version: int = 9
) -> PartitionProduceResponse:
    """Send records on a connection of their own; the one row of the answer. Others are served meanwhile."""
    with Pinger(besieged.bootstrap, server=besieged.broker.process) as pinger:
        ((_, response),) = besieged.strike(request_frame(produce_request(topic, records), version))
    ((row,),) = [each.partition_responses for each in response.responses]
    besieged.check(may_write=row.error_code == ErrorCode.NONE)
    check_wait(pinger, besieged)
    return row


def check_wait(pinger: Pinger, besieged: BesiegedBroker) -> None:
    """Others were served in time meanwhile."""
    assert pinger.most_work_ms < PING_WORK_MS
    MEASURED.append((pinger.most_work_ms, besieged.broker.process.peak_resident_bytes()))


def fetch(besieged: BesiegedBroker, topic: str, offset: int, version: int) -> Any:
    """Fetch on a connection of its own; the one row of the answer. Others are served meanwhile."""
    with Pinger(besieged.bootstrap, server=besieged.broker.process) as pinger:
        row = fetch_quickly(besieged, topic, offset, version)
    check_wait(pinger, besieged)
    return row


def fetch_quickly(besieged: BesiegedBroker, topic: str, offset: int, version: int) -> Any:
    """Fetch on a connection of its own; the one row of the answer."""
    request = fetch_request(topic, offset, max_bytes=50_000_000)
    ((_, response),) = besieged.strike(request_frame(request, version))
    ((row,),) = [each.partitions for each in response.responses]
    return row


# --- bombs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", READ_TOPICS)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_bombs_of_zeros(besieged: BesiegedBroker, codec: Codec, topic: str) -> None:
    if topic == "recompressed" and codec is Codec.LZ4:
        return  # Stored as it is.
    payload = bomb(codec, BOMB_SIZES[codec] * MEGABYTE)
    assert produce(besieged, topic, batch(payload, codec=codec, count=1000)).error_code != ErrorCode.NONE


@cache
def millions(codec: Codec) -> bytes:
    """The smallest records, as many as fit into what is read of one batch."""
    return compress(codec, tiny_records(MILLIONS))


@pytest.mark.parametrize("topic", READ_TOPICS)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_bombs_of_records(besieged: BesiegedBroker, codec: Codec, topic: str) -> None:
    """Millions of the smallest records: all well formed but for their offsets."""
    if topic == "recompressed" and codec is Codec.LZ4:
        return  # Stored as it is.
    row = produce(besieged, topic, batch(millions(codec), codec=codec, count=MILLIONS))
    assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_bombs_small_enough_to_be_read_for_courtesy(besieged: BesiegedBroker, codec: Codec) -> None:
    count = 30_000
    payload = compress(codec, tiny_records(count))
    for topic in ("plain", *READ_TOPICS):
        produce(besieged, topic, batch(payload, codec=codec, count=count))


def test_many_good_records_are_taken(besieged: BesiegedBroker) -> None:
    """Reading and storing them anew takes seconds, which others do not notice."""
    count = 300_000
    payload = compress(Codec.ZSTD, b"".join(keyed_records(count)))
    assert produce(besieged, "recompressed", batch(payload, codec=Codec.ZSTD, count=count)).error_code == 0


@pytest.mark.parametrize("size", [2**31 - 1, 2**32 - 1, 128 * MEGABYTE + 1])
def test_snappy_that_claims(besieged: BesiegedBroker, size: int) -> None:
    payload = snappy_that_claims(size)
    xerial = compress(Codec.SNAPPY, b"")[:16] + len(payload).to_bytes(4, "big") + payload
    for body in (payload, xerial, xerial[:16] + (2**31 - 1).to_bytes(4, "big") + payload):
        for topic in READ_TOPICS:
            assert produce(besieged, topic, batch(body, codec=Codec.SNAPPY)).error_code != ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda codec: codec.name)
@pytest.mark.parametrize("magic", [0, 1])
def test_bombs_in_message_sets(besieged: BesiegedBroker, magic: int, codec: Codec) -> None:
    zeros = bomb(codec, BOMB_SIZES[codec] * MEGABYTE)
    for topic in ("plain", "compacted"):
        row = produce(besieged, topic, wrapper(magic, codec, zeros), version=2 * magic)
        assert row.error_code != ErrorCode.NONE


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_millions(besieged: BesiegedBroker, magic: int) -> None:
    """Small entries, those of magic 0 in the open, those of magic 1 in a wrapper."""
    records = entries(magic, 1_200_000)
    if magic == 1:
        records = wrapper(magic, Codec.GZIP, compress(Codec.GZIP, records))
    row = produce(besieged, "plain", records, version=2 * magic)
    assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_inside_wrappers(besieged: BesiegedBroker, magic: int) -> None:
    nested = entries(magic, 3)
    for depth in range(40):
        nested = wrapper(magic, Codec.GZIP, compress(Codec.GZIP, nested), offset=depth)
    for hostile in (
        nested,
        wrapper(magic, Codec.GZIP, compress(Codec.GZIP, batch(tiny_records(1)))),
        wrapper(1 - magic, Codec.GZIP, compress(Codec.GZIP, entries(magic, 3))),
        wrapper(magic, Codec.ZSTD, compress(Codec.ZSTD, entries(magic, 3))),
        wrapper(magic, 7, entries(magic, 3)),
        wrapper(magic, Codec.GZIP, compress(Codec.GZIP, b"")),
        wrapper(magic, Codec.GZIP, b""),
    ):
        assert produce(besieged, "plain", hostile, version=2 * magic).error_code != ErrorCode.NONE


# --- lies --------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 4, 5, 60, 61, 127, 128, 2**15, 2**31 - 2, 2**31 - 1])
PLACES = {"magic": (-128, 127), "attributes": (-(2**15), 2**15 - 1), "producer_epoch": (-(2**15), 2**15 - 1)}


def specimen(codec: Codec) -> bytes:
    """A small good batch."""
    builder = RecordBatchBuilder(codec=codec)
    for key, value in SPECIMEN_RECORDS:
        builder.append(now_ms(), key, value, [("h", b"v")])
    return bytes(builder.build())


def check_last_batch(besieged: BesiegedBroker, topic: str, row: PartitionProduceResponse) -> None:
    """What was taken must be readable, as whole batches of whole records."""
    data = bytes(fetch_quickly(besieged, topic, row.base_offset, 12).records)
    for each in iter_batches(data):
        assert isinstance(each, RecordBatch)
        assert each.is_valid_crc()
        assert len(list(each.records())) == each.count


@pytest.mark.parametrize("version", range(14))
def test_damaged_requests_write_nothing_but_what_was_sent(besieged: BesiegedBroker, version: int) -> None:
    """Damage may hit what does not matter, or cut a message set between entries."""
    topic_id = besieged.create_topic("target")

    @settings(
        max_examples=EXAMPLES // 50,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32), codec=st.sampled_from(Codec), acks=st.sampled_from([-1, 0, 1]))
    def strike(seed: int, codec: Codec, acks: int) -> None:
        request = produce_request("target", specimen_for(version, codec), acks=acks)
        request.topic_data[0].topic_id = topic_id
        for stream in damaged(request_frame(request, version), Random(seed)):
            for path, (before, after) in besieged.attack(stream).items():
                check_written(Path(path).read_bytes()[before:after])

    strike()


def specimen_for(version: int, codec: Codec) -> bytes:
    """The records of the specimen in the format of a Produce version."""
    if version >= 3:
        return specimen(codec)
    builder = MessageSetBuilder(min(version, 1), codec=Codec.GZIP if codec is Codec.ZSTD else codec)
    for key, value in SPECIMEN_RECORDS:
        builder.append(now_ms(), key, value)
    return builder.build()


def check_written(data: bytes) -> None:
    """Whole batches of the specimen's records, or of the first of them."""
    size = 0
    for each in iter_batches(data):
        assert isinstance(each, RecordBatch)
        assert each.is_valid_crc()
        records = [(record.key, record.value) for record in each.records()]
        assert records == SPECIMEN_RECORDS[: len(records)]
        size += each.size_in_bytes
    assert size == len(data)


@pytest.mark.parametrize("topic", ["plain", *READ_TOPICS])
def test_headers_that_lie(besieged: BesiegedBroker, topic: str) -> None:
    @settings(
        max_examples=EXAMPLES // 10,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        fields=st.dictionaries(st.sampled_from(FIELDS), NUMBERS, min_size=1, max_size=3),
        codec=st.sampled_from(Codec),
    )
    def lie(fields: dict[str, int], codec: Codec) -> None:
        for name, (low, high) in PLACES.items():
            if name in fields:
                fields[name] = max(low, min(high, fields[name]))
        if "crc" in fields:
            fields["crc"] &= 0xFFFFFFFF
        payload = specimen(codec)[61:]
        sent = batch(payload, **{"codec": codec, "count": len(SPECIMEN_RECORDS), **fields})
        row = quick(besieged, topic, sent)
        if row.error_code == ErrorCode.NONE:
            check_last_batch(besieged, topic, row)

    lie()


@pytest.mark.parametrize("topic", ["plain", *READ_TOPICS])
def test_records_that_lie(besieged: BesiegedBroker, topic: str) -> None:
    """Damage below a good checksum: a client with a bug, or worse."""

    @settings(
        max_examples=EXAMPLES // 10,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(random=st.randoms(use_true_random=True), codec=st.sampled_from(Codec), cut=st.integers(0, 30))
    def lie(random: Any, codec: Codec, cut: int) -> None:
        payload = flipped(specimen(codec)[61:], random, random.randrange(1, 4))
        payload = payload[: len(payload) - cut] if random.random() < 0.3 else payload
        row = quick(besieged, topic, batch(payload, codec=codec, count=len(SPECIMEN_RECORDS)))
        if row.error_code == ErrorCode.NONE:
            check_last_batch(besieged, topic, row)

    lie()


@pytest.mark.parametrize("magic", [0, 1])
def test_entries_that_lie(besieged: BesiegedBroker, magic: int) -> None:
    @settings(
        max_examples=EXAMPLES // 10,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        random=st.randoms(use_true_random=True), codec=st.sampled_from([0, 1, 2, 3]), outside=st.booleans()
    )
    def lie(random: Any, codec: int, outside: bool) -> None:
        inner = entries(magic, 3)
        if not outside:
            inner = flipped(inner, random, random.randrange(1, 4))
        sent = inner if codec == 0 else wrapper(magic, codec, compress(Codec(codec), inner, magic=magic))
        if outside:
            sent = flipped(sent, random, random.randrange(1, 4))
        row = quick(besieged, "plain", sent, version=2 * magic)
        if row.error_code == ErrorCode.NONE:
            check_last_batch(besieged, "plain", row)

    lie()


def quick(besieged: BesiegedBroker, topic: str, records: bytes, version: int = 9) -> PartitionProduceResponse:
    """Send records on a connection of their own; the one row of the answer."""
    ((_, response),) = besieged.strike(request_frame(produce_request(topic, records), version))
    ((row,),) = [each.partition_responses for each in response.responses]
    besieged.check(may_write=row.error_code == ErrorCode.NONE)
    return row


# --- what another broker has stored ------------------------------------------------------------------


STORED = {
    "records": lambda: millions(Codec.GZIP),
    "zeros": lambda: bomb(Codec.GZIP, 8192 * MEGABYTE),
    "garbage": lambda: b"\xff" * 100_000,
}


def test_stored_bombs_go_off_in_nobodys_face(tmp_path: Path) -> None:
    """No producer can store them here, but a directory may hold them; old clients and searches read them."""
    broker = KcliBroker(tmp_path, settings={"log.retention.ms": "-1"}).start()
    for topic in STORED:
        create_topic(broker.bootstrap, topic, 1)
    assert broker.stop() == 0
    written = {}
    for topic, payload in STORED.items():
        written[topic] = batch(
            payload(), codec=Codec.GZIP, count=MILLIONS, max_timestamp=now_ms() + 1000, leader_epoch=0
        )
        (broker.node_directory / f"{topic}-0" / f"{0:020d}.log").write_bytes(written[topic])
    broker.start()
    mined = BesiegedBroker(broker, peak_bytes=PEAK_BYTES, answer_seconds=ANSWER_SECONDS)
    for topic, stored in written.items():
        for version in (0, 1, 2, 3, 4, 12):
            fetched = fetch(mined, topic, 0, version)
            assert version < 4 or bytes(fetched.records) == stored
        for timestamp in (-3, now_ms(), now_ms() - 1000):
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            wanted = ListOffsetsTopic(name=topic, partitions=[partition])
            request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
            with Pinger(mined.bootstrap, server=broker.process) as pinger:
                mined.strike(request_frame(request, 8))
            check_wait(pinger, mined)
    mined.check_log()
    mined.check_memory()
    mined.close()
    assert broker.stop() == 0


def test_what_it_cost(show: Callable[[str], None]) -> None:
    most = max((work for work, _ in MEASURED), default=0)
    peak = max((peak for _, peak in MEASURED), default=0)
    show(
        f"hostile records: others waited for {most:.0f} ms of the broker's work at most, "
        f"memory peaked at {peak // MEGABYTE} MB"
    )
