"""BrokersSource: what a planner asks a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.messages.list_offsets import EARLIEST, LATEST
from kcli.protocol.uuids import ZERO_UUID, uuid_to_text
from kcli.spark.cluster.brokers_reader import BrokersReader
from kcli.spark.cluster.cluster_access import ClusterAccess
from kcli.spark.cluster.codec_sample import codec_at
from kcli.spark.cluster.divergence import divergences
from kcli.spark.cluster.offset_queries import offsets_at, sizes_of
from kcli.spark.cluster.range_splits import cut
from kcli.spark.source import TopicIdentity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.compression.codecs import Codec
    from kcli.spark.reading import BatchMark, OffsetInterval
    from kcli.spark.source import SplitLimits
    from kcli.spark.split import Split, TopicPartition


class BrokersSource:
    """The topics of the cluster behind `host:port,host:port`, through a client with these properties.

    `fail_on_data_loss` says what a reader does when offsets of its split are gone.
    """

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str] | None = None, *, fail_on_data_loss: bool = True
    ) -> None:
        self._access = ClusterAccess(bootstrap, dict(properties or {}))
        self._access.check()
        self._fail_on_data_loss = fail_on_data_loss
        self._cluster_id: str | None = None

    def __repr__(self) -> str:
        return f"BrokersSource({self._access!r})"

    def cluster_id(self) -> str | None:
        """Return the cluster's id, None if its brokers are too old to have one."""
        if self._cluster_id is None:
            self._take(self._access.ask(lambda client: client.metadata(())))
        return self._cluster_id

    def topics(self) -> Sequence[TopicIdentity]:
        """Return every topic that may be described, in the order of names."""
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
        """Return the first offset of each partition."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> Mapping[TopicPartition, int]:
        """Return the high watermark of each partition, or its last stable offset."""
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def at_timestamps(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | None]:
        """Return the earliest offset at or after each timestamp; what is before 1970 is 1970."""
        # Negative timestamps have meanings of their own to a broker.
        found = self._offsets({one: max(0, time) for one, time in timestamps_ms.items()})
        return {one: offset if offset >= 0 else None for one, offset in found.items()}

    def divergences(
        self, marks: Mapping[TopicPartition, Sequence[BatchMark]]
    ) -> Mapping[TopicPartition, int]:
        """Return from where on a log is not the one that was read, as the leader knows its epochs."""
        return self._access.ask(lambda client: divergences(client, marks)) if marks else {}

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetInterval], limits: SplitLimits, *, read_committed: bool
    ) -> Sequence[Split]:
        """Cut ranges into splits of about equal bytes, largest first."""
        wanted = {one: interval for one, interval in ranges.items() if interval.end > interval.start}
        if not wanted:
            return ()
        density, codec = self._access.ask(lambda client: _density_and_codec(client, wanted))
        return cut(wanted, density, limits, codec)

    def reader(self) -> BrokersReader:
        """Return what tasks read splits with."""
        return BrokersReader(self._access, fail_on_data_loss=self._fail_on_data_loss)

    def close(self) -> None:
        """Do nothing: no connection outlives a question."""

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
    """Return the bytes per offset, where sizes are told, and the codec of the largest range."""
    sizes = await sizes_of(client, ranges)
    earliest = await offsets_at(client, dict.fromkeys(sizes, EARLIEST))
    latest = await offsets_at(client, dict.fromkeys(sizes, LATEST))
    density = {
        one: size / (latest[one] - earliest[one])
        for one, size in sizes.items()
        if latest[one] > earliest[one]
    }
    largest = max(ranges, key=lambda one: (ranges[one].end - ranges[one].start) * density.get(one, 1.0))
    return density, await codec_at(client, largest, ranges[largest].start)
