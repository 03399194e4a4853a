"""Divergence: whether the leaders' logs still have the batches that earlier runs read.

A leader tells where an epoch ends in its log. A batch of that epoch at or behind the end is not there any
more: an unclean election has brought a replica to power that lacks it, and what followed is something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.partitions import EpochEnd, epoch_ends
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import TopicPartition as ClientPartition
from kcli.spark.ranges.data_loss import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.client.client import Client
    from kcli.protocol.error_codes import KafkaError
    from kcli.spark.reading import BatchMark
    from kcli.spark.split import TopicPartition


async def divergences(
    client: Client, marks: Mapping[TopicPartition, Sequence[BatchMark]]
) -> dict[TopicPartition, int]:
    """Return the lowest offset from which a log is another one, of each that lacks a batch of its marks.

    Brokers before 2.0 cannot be asked: their logs count as the same.
    """
    found: dict[TopicPartition, int] = {}
    # A request has room for one epoch of a partition; more than one is rare.
    for number in range(max(map(len, marks.values()), default=0)):
        asked = {one: batches[number] for one, batches in marks.items() if number < len(batches)}
        epochs = {ClientPartition(*one): mark.leader_epoch for one, mark in asked.items()}
        answers = await epoch_ends(client, epochs)
        for one, mark in asked.items():
            offset = _divergence(one, mark, answers[ClientPartition(*one)])
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
