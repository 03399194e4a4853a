"""BrokersSource: what a planner asks a running cluster.

Ranges become splits of about equal bytes if brokers tell the size of logs. One batch is fetched as a sample
of the codec. A leader's log differs from the one that an earlier run read if an epoch ends there before a
batch of that epoch: after an unclean election the new leader lacks the batch, and what follows is something
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.partitions import EpochEnd, epoch_ends
from kcli.errors import KcliError
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.list_offsets import EARLIEST, LATEST
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.uuids import ZERO_UUID, uuid_to_text
from kcli.spark.source.brokers.brokers_reader import BrokersReader
from kcli.spark.source.brokers.cluster_access import ClusterAccess, offsets_at, sizes_of
from kcli.spark.source.brokers.fetch_connection import fetch_request, max_fetch_version, partition_data
from kcli.spark.source.data_loss import name_of
from kcli.spark.source.ranges.division import (
    ASSUMED_BYTES_PER_OFFSET,
    at_least,
    cut_evenly,
    divide,
    split_bytes,
)
from kcli.spark.source.source import TopicIdentity
from kcli.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.topics import TopicPartition
    from kcli.spark.source.ranges.division import OffsetRange
    from kcli.spark.source.source import SplitLimits
    from kcli.spark.split import BatchMark, OffsetInterval


def cut(
    ranges: Mapping[TopicPartition, OffsetInterval],
    bytes_per_offset: Mapping[TopicPartition, float],
    limits: SplitLimits,
    codec: Codec,
) -> list[Split]:
    """Return the splits of ranges, largest first.

    `max_records` cuts first, then the bytes of a split, and then `min_partitions` if there are still too few.
    """
    density = {one: bytes_per_offset.get(one, ASSUMED_BYTES_PER_OFFSET) for one in ranges}

    def size(piece: OffsetRange) -> float:
        return piece.size * density[piece.partition]

    pieces = divide(ranges, max_records=limits.max_records)
    largest = split_bytes(int(sum(map(size, pieces))), limits, codec)
    pieces = [part for piece in pieces for part in cut_evenly(piece, max(1, -(-int(size(piece)) // largest)))]
    if limits.min_partitions is not None:
        pieces = at_least(pieces, limits.min_partitions)
    pieces.sort(key=size, reverse=True)
    return [
        Split(
            *piece.partition,
            piece.start,
            piece.end,
            size_bytes=int(size(piece)) if piece.partition in bytes_per_offset else 0,
        )
        for piece in pieces
    ]


_BYTES = 64 * 1024


async def codec_at(client: Client, partition: TopicPartition, offset: int) -> Codec:
    """Return the codec of the batch at an offset; LZ4, a middle value, if it cannot be read."""
    cluster = await client.metadata({partition.topic})
    leader = cluster.leader_of(partition)
    if leader is None:
        return Codec.LZ4
    topic_id = cluster.topics[partition.topic].topic_id
    request = fetch_request(partition, topic_id, offset, max_bytes=_BYTES)
    try:
        response = await client.request(leader.leader, request, max_version=max_fetch_version(topic_id))
        data = partition_data(response, partition)
        batch = next(iter(iter_batches(data.records or b"")), None)
        return Codec.LZ4 if batch is None else batch.codec
    except (KcliError, CorruptRecord):
        return Codec.LZ4


async def divergences(
    client: Client, marks: Mapping[TopicPartition, Sequence[BatchMark]]
) -> dict[TopicPartition, int]:
    """Return the lowest offset where a log differs, for each log that lacks a batch of its marks.

    Brokers before 2.0 cannot be asked: their logs count as unchanged.
    """
    found: dict[TopicPartition, int] = {}
    # A request has room for one epoch per partition; several are rare.
    for number in range(max(map(len, marks.values()), default=0)):
        asked = {one: batches[number] for one, batches in marks.items() if number < len(batches)}
        epochs = {one: mark.leader_epoch for one, mark in asked.items()}
        answers = await epoch_ends(client, epochs)
        for one, mark in asked.items():
            offset = _divergence(one, mark, answers[one])
            if offset is not None:
                found[one] = min(offset, found.get(one, offset))
    return found


def _divergence(partition: TopicPartition, mark: BatchMark, answer: EpochEnd | KafkaError) -> int | None:
    if not isinstance(answer, EpochEnd):
        if answer.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise KcliError(
            f"cannot ask for the leader epochs of {name_of(partition)}: {answer.message}", hint=answer.hint
        )
    if answer.leader_epoch == mark.leader_epoch and answer.offset > mark.offset:
        return None
    return max(answer.offset, 0)


class BrokersSource:
    """The topics of a cluster; `fail_on_data_loss` decides whether a reader raises `DataLoss`."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str] | None = None, *, fail_on_data_loss: bool = True
    ) -> None:
        self._access = ClusterAccess(bootstrap, dict(properties or {}))
        self._access.check()
        # Tasks may run on machines that have no such files.
        self._access = self._access.portable()
        self._fail_on_data_loss = fail_on_data_loss
        self._cluster_id: str | None = None

    def __repr__(self) -> str:
        return f"BrokersSource({self._access!r})"

    def cluster_id(self) -> str | None:
        """Return the cluster's id, None if its brokers are too old."""
        if self._cluster_id is None:
            self._take(self._access.ask(lambda client: client.metadata(())))
        return self._cluster_id

    def topics(self) -> Sequence[TopicIdentity]:
        """Return every topic that the user may describe, by name."""
        cluster = self._take(self._access.ask(lambda client: client.metadata(None)))
        return tuple(
            TopicIdentity(
                name,
                None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
                tuple(sorted(topic.partitions)),
            )
            for name, topic in sorted(cluster.topics.items())
        )

    def earliest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> Mapping[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def at_timestamps(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | None]:
        """Return the earliest offset at or after each timestamp; times before 1970 count as 1970."""
        # To a broker, negative timestamps have special meanings.
        found = self._offsets({one: max(0, time) for one, time in timestamps_ms.items()})
        return {one: offset if offset >= 0 else None for one, offset in found.items()}

    def divergences(
        self, marks: Mapping[TopicPartition, Sequence[BatchMark]]
    ) -> Mapping[TopicPartition, int]:
        """Return the offset where a log differs from the one that was read, by the leader's epochs."""
        return self._access.ask(lambda client: divergences(client, marks)) if marks else {}

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> Sequence[Split]:
        wanted = {one: interval for one, interval in ranges.items() if interval.end > interval.start}
        if not wanted:
            return ()
        density, codec = self._access.ask(lambda client: _density_and_codec(client, wanted))
        return cut(wanted, density, limits, codec)

    def reader(self) -> BrokersReader:
        return BrokersReader(self._access, fail_on_data_loss=self._fail_on_data_loss)

    def close(self) -> None:
        """Do nothing: a connection lives as long as a question."""

    def _take(self, cluster: ClusterMetadata) -> ClusterMetadata:
        self._cluster_id = cluster.cluster_id
        return cluster

    def _offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        if not timestamps:
            return {}
        return self._access.ask(lambda client: offsets_at(client, timestamps, read_committed=read_committed))


async def _density_and_codec(
    client: Client, ranges: Mapping[TopicPartition, OffsetInterval]
) -> tuple[dict[TopicPartition, float], Codec]:
    """Return the bytes per offset, if sizes are known, and the codec of the largest range."""
    sizes = await sizes_of(client, ranges)
    earliest = await offsets_at(client, dict.fromkeys(sizes, EARLIEST))
    latest = await offsets_at(client, dict.fromkeys(sizes, LATEST))
    counts = {one: latest[one] - earliest[one] for one in sizes}
    density = {one: size / counts[one] for one, size in sizes.items() if counts[one] > 0}
    largest = max(ranges, key=lambda one: (ranges[one].end - ranges[one].start) * density.get(one, 1.0))
    return density, await codec_at(client, largest, ranges[largest].start)
