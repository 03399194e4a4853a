"""QuorumView: the copies of the metadata log, for DescribeQuorum (KIP-595, KIP-836)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.controller.heartbeat_control import Sessions
    from kcli.broker.metadata.metadata_image import MetadataImage

UNKNOWN_DIRECTORY = bytes(16)


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node's copy: its end (-1 if unknown), and how long ago the node was heard and level."""

    node_id: int
    directory: bytes
    end_offset: int
    heard_ago_ms: int | None = None
    level_ago_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The metadata log of one epoch; every node may become the controller, so every copy is a voter's."""

    leader_id: int
    leader_epoch: int
    end_offset: int
    replicas: tuple[QuorumReplica, ...]


def quorum_view(
    image: MetadataImage, sessions: Sessions, copy_ends: Mapping[int, int], *, leader_id: int, now_ms: int
) -> QuorumView:
    """Return the copies at `now_ms`: the reachable ones by `copy_ends`, others by their last heartbeats."""
    end_offset = image.offset + 1
    replicas = []
    for node_id, broker in sorted(image.brokers.items()):
        directory = broker.directories[0] if broker.directories else UNKNOWN_DIRECTORY
        seen = sessions.last_seen(node_id)
        copy_end = -1 if seen is None else seen.applied_offset + 1
        heard_ago_ms = None if seen is None else _ago(now_ms, seen.heard_ms)
        level_ago_ms = None if seen is None else _ago(now_ms, seen.level_ms)
        if node_id in copy_ends:
            copy_end, heard_ago_ms = copy_ends[node_id], 0
            level_ago_ms = 0 if copy_end >= end_offset else level_ago_ms
        replicas.append(QuorumReplica(node_id, directory, copy_end, heard_ago_ms, level_ago_ms))
    return QuorumView(leader_id, image.epoch, end_offset, tuple(replicas))


def _ago(now_ms: int, then_ms: int | None) -> int | None:
    return None if then_ms is None else max(now_ms - then_ms, 0)
