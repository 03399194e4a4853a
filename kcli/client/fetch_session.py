"""FetchSession: the client's side of an incremental fetch session with one broker (KIP-227).

Session 0 with epoch 0 asks for a new session and names every partition. From then on requests name only what
changed since the last one: added or moved partitions, and forgotten ones. Epochs count 1, 2, ... and wrap to
1. A broker that answers session 0 keeps none; then every request is a full one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.topics import TopicPartition

MAX_EPOCH = 2**31 - 1


class FetchTarget(NamedTuple):
    """What a request says about a partition."""

    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    leader_epoch: int


class FetchSession:
    """The session's id and epoch, and what the broker knows from the requests so far."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self._known: dict[TopicPartition, FetchTarget] = {}

    def reset(self) -> None:
        """Begin anew with the next request."""
        self.session_id = self.epoch = 0
        self._known = {}

    def build(
        self, targets: Mapping[TopicPartition, FetchTarget]
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return what the next request names and what it forgets, and take `targets` as known."""
        known = self._known
        forgotten: dict[tuple[str, bytes], list[int]] = {}
        for partition, target in known.items():
            replaced = targets.get(partition)
            if replaced is None or replaced.topic_id != target.topic_id:
                forgotten.setdefault((partition.topic, target.topic_id), []).append(partition.partition)
        named: dict[tuple[str, bytes], list[FetchPartition]] = {}
        for partition, target in targets.items():
            if known.get(partition) != target:
                named.setdefault((partition.topic, target.topic_id), []).append(
                    FetchPartition(
                        partition=partition.partition,
                        current_leader_epoch=target.leader_epoch,
                        fetch_offset=target.fetch_offset,
                        partition_max_bytes=target.max_bytes,
                    )
                )
        self._known = dict(targets)
        return (
            [
                FetchTopic(topic=name, topic_id=ident, partitions=rows)
                for (name, ident), rows in named.items()
            ],
            [
                ForgottenTopic(topic=name, topic_id=ident, partitions=rows)
                for (name, ident), rows in forgotten.items()
            ],
        )

    def topic_names(self) -> dict[bytes, str]:
        """Return the names of the topics in the session, by the ids that answers use."""
        return {target.topic_id: partition.topic for partition, target in self._known.items()}

    def answered(self, session_id: int) -> None:
        """Take the session that an answer without an error came from."""
        if session_id == 0:
            self.reset()
            return
        self.session_id = session_id
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1
