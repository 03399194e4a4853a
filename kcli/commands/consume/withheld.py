"""What a reader with read_committed did not get at the end: records behind the last stable offset."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.topics import TopicPartition

LOOKING_SECONDS = 5.0
"""How long to wait for the leaders: the records are printed, and that is what counts."""


async def withheld(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return how far the high watermark is from the last stable offset, where it is; raise `KcliError`."""
    from kcli.client import admin

    latest = dict.fromkeys(partitions, admin.LATEST)
    stable = await admin.list_offsets(client, latest, read_committed=True)
    ends = await admin.list_offsets(client, latest)
    counts = {}
    for partition, end in ends.items():
        last = stable[partition]
        if isinstance(last, KcliError):
            raise last
        if isinstance(end, KcliError):
            raise end
        counts[partition] = end.offset - last.offset
    return {partition: count for partition, count in counts.items() if count > 0}


async def note_withheld(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Note on stderr how many records wait for the end of transactions, and what tells of those."""
    from kcli.commands.shared.formatting import counted, listed
    from kcli.commands.shared.output import note, warn

    counts: dict[TopicPartition, int] = {}
    lost: str | None = "no answer"
    with trio.move_on_after(LOOKING_SECONDS):
        try:
            counts = await withheld(client, partitions)
            lost = None
        except KcliError as error:
            lost = error.message
    if lost is not None:
        warn(f"whether records wait behind open transactions is unknown: {lost}")
    if not counts:
        return
    waiting = sum(counts.values())
    where = listed(map(str, sorted(counts)))
    note(
        f"{counted(waiting, 'record')} {'waits' if waiting == 1 else 'wait'} behind "
        f"{'an open transaction' if len(counts) == 1 else 'open transactions'} in {where}"
    )
    topics = sorted({partition.topic for partition in counts})
    which = topics[0] if len(topics) == 1 else "TOPIC"
    note(f"hint: `kcli transactions find-hanging --topic {which}` tells whether it will be ended")
