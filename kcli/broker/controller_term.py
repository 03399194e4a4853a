"""Term: a node's time in office, and what its controller writes to: its copy of the log, then the others.

A controller whose term is over can write nothing any more, and neither can one whose node is cut off from
more than half of the nodes that are there: another will take office. Whoever asked is told NOT_CONTROLLER,
and asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.metadata_copies import bring_level
from kcli.broker.metadata_log import MetadataLogFailed
from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.broker.metadata_copies import MetadataCopies
    from kcli.broker.metadata_image import MetadataImage
    from kcli.broker.metadata_log import MetadataLog
    from kcli.protocol.internal.metadata_records import MetadataRecord


class Term:
    """One term of the node `node_id`.

    `reaches` says whether it reaches another node, `may_decide` whether it reaches enough of them, and
    `failed` gets the failure of a node's copy.
    """

    def __init__(
        self,
        copies: MetadataCopies,
        node_id: int,
        *,
        reaches: Callable[[int], bool],
        may_decide: Callable[[], bool],
        failed: Callable[[int, Exception], None],
    ) -> None:
        self.node_id = node_id
        self.is_over = False
        self._copies = copies
        self._log = copies[node_id]
        self._reaches = reaches
        self._may_decide = may_decide
        self._failed = failed

    @property
    def epoch(self) -> int:
        """The epoch of the newest batch."""
        return self._log.epoch

    @property
    def end_offset(self) -> int:
        """The next offset."""
        return self._log.end_offset

    def copy_ends(self) -> dict[int, int]:
        """Return the next offset of each copy that is reached, by node."""
        return {
            node_id: copy.end_offset
            for node_id, copy in self._copies
            if node_id == self.node_id or self._reaches(node_id)
        }

    def begin_term(self) -> int:
        """Begin an epoch that no copy knows of, in every copy that is reached."""
        self.level()
        epoch = max(copy.next_epoch for _, copy in self._copies)
        voters = [node_id for node_id, _ in self._copies]
        self._log.begin_term(epoch, voters)
        self._each(lambda copy: copy.note_term(epoch, leader=self.node_id, voters=voters))
        self.level()
        return epoch

    def compact(self, image: MetadataImage) -> None:
        """Put a snapshot in the place of the log, in every copy that is reached, if it is long."""
        if not self._log.is_long:
            return
        self._log.compact(image)
        snapshot = self._log.snapshot()
        assert snapshot is not None
        self._each(lambda copy: copy.install(*snapshot, sync=False))

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Write one decision, durably in this node's copy. Raises `OSError` and `KafkaError`."""
        if self.is_over:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} is not the controller any more")
        if not self._may_decide():
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {self.node_id}, the controller, is cut off from most nodes"
            )
        start = self._log.end_offset
        batch = self._log.encode(records)
        try:
            self._log.write(batch)
            self._log.sync()
        except (OSError, MetadataLogFailed) as error:
            # It can decide nothing any more, and as a replica it would know nothing new either.
            self._failed(self.node_id, _failure(self._log, error))
            raise
        self._each(lambda copy: self._extend(copy, start, batch))
        return self._log.end_offset - 1

    def level(self) -> None:
        """Bring every copy level that is reached."""
        self._each(lambda copy: self._extend(copy, -1, b""))

    def _extend(self, copy: MetadataLog, start: int, batch: bytes | bytearray) -> None:
        """Write a batch to a copy, if it is all that this lacks."""
        if (copy.epoch, copy.end_offset) == (self._log.epoch, start):
            copy.write(batch)
        elif (copy.epoch, copy.end_offset) != (self._log.epoch, self._log.end_offset):
            bring_level(copy, self._log)

    def _each(self, change: Callable[[MetadataLog], None]) -> None:
        """Change every copy but this node's that is reached; where that fails it is that node's failure."""
        for node_id, copy in self._copies:
            if node_id != self.node_id and self._reaches(node_id):
                try:
                    change(copy)
                except OSError as error:
                    self._failed(node_id, _failure(copy, error))
                except KafkaError as error:
                    self._failed(node_id, error)


def _failure(copy: MetadataLog, error: OSError | MetadataLogFailed) -> KcliError:
    if isinstance(error, MetadataLogFailed):
        return error
    return KcliError(f"cannot write the metadata log in `{copy.directory}`: {reason_of(error)}")
