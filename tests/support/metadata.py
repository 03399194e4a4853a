"""Images and a controller to test decisions with: brokers 1, 2 … of one directory each, a log in memory."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.controller.controller import Controller
from kcli.broker.metadata.metadata_image import EMPTY_IMAGE, BrokerRegistration, Endpoint, MetadataImage
from kcli.broker.metadata.metadata_replay import apply
from kcli.protocol.internal.metadata_records import PartitionRecord, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord


def directory_of(node_id: int) -> bytes:
    """Return the id of a node's log directory."""
    return f"directory {node_id:06d}".encode()


def topic_id(number: int) -> bytes:
    """Return the id of the nth topic."""
    return f"topic {number:010d}".encode()


def broker(node_id: int, *, fenced: bool = False, rack: str | None = None) -> BrokerRegistration:
    """Return a broker as the image has it."""
    return BrokerRegistration(
        node_id=node_id,
        epoch=node_id * 100,
        incarnation=f"incarnation {node_id:04d}".encode(),
        endpoints=(Endpoint("PLAINTEXT", f"host-{node_id}", 9092),),
        rack=rack,
        fenced=fenced,
        directories=(directory_of(node_id),),
    )


def image_of(*brokers: BrokerRegistration) -> MetadataImage:
    """Return an image with these brokers and no topics, at offset 99."""
    return MetadataImage(brokers={each.node_id: each for each in brokers}, offset=99, epoch=1)


def with_topic(image: MetadataImage, name: str, number: int, *partitions: Sequence[int]) -> MetadataImage:
    """Return the image with a topic more, whose partitions have these replicas, all in sync."""
    records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id(number))]
    records.extend(
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id(number),
            replicas=list(replicas),
            isr=list(replicas),
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory_of(replica) for replica in replicas],
        )
        for index, replicas in enumerate(partitions)
    )
    return apply(image, records)[0]


class MemoryLog:
    """A metadata log in memory, which may be told to fail."""

    node_id = 1

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, tuple[MetadataRecord | SecurityRecord, ...]]] = []
        self.end_offset = 0
        self.epoch = 0
        self.failure: OSError | None = None

    def compact(self, image: MetadataImage) -> None:
        """Never needed."""

    def copy_ends(self) -> dict[int, int]:
        return {1: self.end_offset}

    def begin_epoch(self) -> int:
        self.epoch += 1
        self.batches.append((self.end_offset, self.epoch, ()))
        self.end_offset += 1
        return self.epoch

    def append(self, records: Sequence[MetadataRecord | SecurityRecord], metadata_version: int) -> int:
        if self.failure is not None:
            raise self.failure
        self.end_offset += len(records)
        self.batches.append((self.end_offset - 1, self.epoch, tuple(records)))
        return self.end_offset - 1


def running_controller(nodes: int = 1, *, log: MemoryLog | None = None) -> Controller:
    """Return a controller in its first epoch, with nodes 1 … that are not fenced."""
    numbers = itertools.count(1)
    controller = Controller(
        log or MemoryLog(),
        EMPTY_IMAGE,
        random=Random(7),
    )
    controller.new_topic_id = lambda: topic_id(next(numbers))
    controller.begin_epoch()
    for node_id in range(1, nodes + 1):
        registration = broker(node_id)
        epoch = controller.register_broker(
            BrokerRegistrationRequest(
                node_id=node_id,
                incarnation=registration.incarnation,
                endpoints=registration.endpoints,
                directories=registration.directories,
            )
        )
        controller.unfence_broker(node_id=node_id, epoch=epoch)
    return controller
