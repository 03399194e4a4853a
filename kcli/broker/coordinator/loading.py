"""Loading: reading a partition's log into the shard of a node that has come to lead it.

It reads up to the log's end: what its leader has, the partition will have, committed by now or soon. Page
after page, and often within one, others get their turn; a shard that was closed meanwhile is left alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.coordinator.log_replay import LogReplay
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.broker.coordinator.log_replay import Decode
    from kcli.broker.coordinator.shard_host import ShardHost
    from kcli.storage.log.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


async def load(host: ShardHost[Any], *, decode: Decode, page_bytes: int) -> bool:
    """Replay all of the log; return whether the shard may begin, which one that is closed by now may not.

    Raises `KafkaError` or `OSError` where the log cannot be read.
    """
    log = host.partition.log
    name = str(log.topic_partition)
    replay = LogReplay(
        host.shard.replay, decode=decode, report=lambda line: _log.warning("%s: %s", name, line)
    )
    replay.next_offset = log.log_start_offset
    started = trio.current_time()
    while replay.next_offset < log.log_end_offset:
        for _ in _page(log, replay, page_bytes):
            await trio.lowlevel.checkpoint()
            if host.is_closed:
                return False
        await trio.lowlevel.checkpoint()
        if host.is_closed:
            return False
    seconds = trio.current_time() - started
    _log.info("%s: read %d records in %.3f s", name, replay.records, seconds)
    return True


def _page(log: UnifiedLog, replay: LogReplay, page_bytes: int) -> Iterator[None]:
    """Replay the next page; behind what cannot be read, go on with the next segment."""
    offset = replay.next_offset
    try:
        records = log.read(offset, page_bytes, isolation=Isolation.LOG_END).file_slice
    except KafkaError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        damage = error.message
    else:
        if records is None:
            # What was there has been compacted away.
            replay.next_offset = log.log_end_offset
            return
        yield from replay.page(records.read())
        if replay.damage is None and replay.next_offset > offset:
            return
        damage = replay.damage or "an entry is cut short"
    following = log.segments.higher(replay.next_offset)
    end = log.log_end_offset if following is None else following.base_offset
    replay.skip(f"offsets {replay.next_offset} to {end - 1}: {damage}")
    replay.next_offset = end
