"""ControllerOffice: which node is the controller, and how that changes (the part of KRaft that is an
election).

One node at a time holds the office, for a term with an epoch of its own. It keeps it while it runs and
reaches at least half of the nodes that do. Of two nodes whose link is cut it is the holder that goes on, so
that something can be seen of the other's absence: a quorum of two voters would stand still. A node that dies
loses it at once; one that is paused or cut off after `controller.quorum.fetch.timeout.ms`, as others would
notice only then. Its successor is the node with the newest copy of the metadata log among those that reach at
least half. Between two terms nobody decides, and every request is answered NOT_CONTROLLER.

What was decided is never forgotten while the process runs: a successor whose copy lacks it, because its node
was not there, gets it as a snapshot first.

Term: a node's time in office, and what its controller writes to: its copy of the log, then the others.

A controller whose term is over can write nothing any more, and neither can one whose node is cut off from
more than half of the nodes that are there: another will take office. Whoever asked is told NOT_CONTROLLER,
and asks again.

ControllerLink: how a node reaches the controller, which may be on a node that it cannot reach.

Every call asks anew: the office moves, and links are cut. Whoever cannot reach it gets NOT_CONTROLLER, and
asks again after its own backoff.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.metadata.metadata_copies import bring_level
from kcli.broker.metadata.metadata_log import MetadataLogFailed
from kcli.broker.metadata.metadata_replay import replay
from kcli.broker.metadata.metadata_snapshot import SnapshotId, encode_snapshot
from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kcli.broker.controller.controller import Controller, Journal
    from kcli.broker.metadata.metadata_copies import MetadataCopies
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.metadata_log import MetadataLog
    from kcli.broker.metadata.metadata_publisher import MetadataFeeds, Subscriber
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


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


FETCH_TIMEOUT_MS = 2000
"""The default of `controller.quorum.fetch.timeout.ms`."""

_log = logging.getLogger(__name__)


class ControllerOffice:
    """The office of a cluster.

    `make` makes a controller that writes to a journal, for a node, from an image. `running` returns the nodes
    that run and are not paused, `reaches` says whether two nodes reach each other, and `failed` gets what a
    node's copy of the log failed with.
    """

    def __init__(
        self,
        copies: MetadataCopies,
        feeds: MetadataFeeds,
        *,
        make: Callable[[int, Journal, MetadataImage], Controller],
        running: Callable[[], Collection[int]],
        reaches: Callable[[int, int], bool],
        failed: Callable[[int, Exception], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self.copies = copies
        self.feeds = feeds
        self.fetch_timeout_ms = FETCH_TIMEOUT_MS
        self.controller: Controller | None = None
        self._term: Term | None = None
        self._make = make
        self._running = running
        self._reaches = reaches
        self._failed = failed
        self._wall_ms = wall_ms
        self._unfit_since_ms: int | None = None
        self._observers: list[Subscriber] = []

    @property
    def holder(self) -> int | None:
        """The node in office."""
        return None if self._term is None else self._term.node_id

    @property
    def epoch(self) -> int:
        """The epoch of the newest term."""
        return self.feeds.latest.epoch

    def observe(self, observer: Subscriber) -> None:
        """Tell `observer` of every change, whoever decides it."""
        self._observers.append(observer)
        if self.controller is not None:
            self.controller.subscribe(observer)

    def reached_from(self, node_id: int) -> Controller:
        """Return the controller, for a call from a node. Raises `KafkaError` NOT_CONTROLLER."""
        controller, holder = self.controller, self.holder
        if controller is None or holder is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no node is the controller, for now")
        if holder not in self._running():
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {holder}, the controller, does not answer")
        if not self._reaches(node_id, holder):
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {node_id} cannot reach node {holder}, the controller"
            )
        return controller

    # --- taking and leaving office ---------------------------------------------------------------

    def take(self, node_id: int) -> Controller:
        """Have a node take office, whoever holds it. Raises `OSError`, `KcliError` and `KafkaError`."""
        image = self._image_for(node_id)
        self.leave()
        term = Term(
            self.copies,
            node_id,
            reaches=lambda other: other in self._running() and self._reaches(node_id, other),
            may_decide=lambda: self.is_fit(node_id),
            failed=self._failed,
        )
        controller = self._make(node_id, term, image)
        for observer in (self.feeds.deliver, *self._observers):
            controller.subscribe(observer)
        self._term, self.controller, self._unfit_since_ms = term, controller, None
        try:
            controller.begin_term()
        except (OSError, KafkaError):
            self.leave()
            raise
        self.feeds.deliver(controller.image)
        return controller

    def leave(self) -> None:
        """End the term; nobody is in office."""
        if self._term is not None:
            self._term.is_over = True
        self._term = self.controller = self._unfit_since_ms = None

    def node_gone(self, node_id: int, now_ms: int) -> None:
        """Find a successor at once if it was this node that held the office."""
        if node_id == self.holder:
            self.leave()
            self.tick(now_ms)

    def elect(self, node_id: int) -> None:
        """Move the office to a node on request. Raises `KcliError` if it cannot hold it."""
        if node_id == self.holder:
            return
        if node_id not in self._running():
            raise KcliError(f"node {node_id} does not run")
        if not self.is_fit(node_id):
            raise KcliError(f"node {node_id} is cut off from most nodes")
        try:
            self.take(node_id)
        except OSError as error:
            refusal = KcliError(f"node {node_id} cannot be the controller: {error.strerror}")
            self._failed(node_id, refusal)
            raise refusal from error
        _log.info("node %d is the controller now, in term %d", node_id, self.epoch)

    def elect_other_than(self, node_id: int) -> None:
        """Move the office away from a node that is about to stop, if any other can hold it."""
        candidates = [each for each in self._running() if each != node_id and self.is_fit(each)]
        while (successor := self.copies.newest(candidates)) is not None:
            try:
                return self.elect(successor)
            except KcliError as error:
                _log.warning("%s", error.message)
                candidates.remove(successor)

    def _image_for(self, node_id: int) -> MetadataImage:
        """Return the image that a node's copy makes, once the copy holds everything that was decided."""
        log, latest = self.copies[node_id], self.feeds.latest
        if log.end_offset <= latest.offset or log.epoch < latest.epoch:
            log.install(
                SnapshotId(latest.offset + 1, latest.epoch), encode_snapshot(latest, now_ms=self._wall_ms())
            )
        if log.end_offset == latest.offset + 1 and log.epoch == latest.epoch:
            return latest
        return replay(log.replay())

    # --- following the nodes ---------------------------------------------------------------------

    def is_fit(self, node_id: int) -> bool:
        """True if a node runs and reaches at least half of those that do."""
        running = self._running()
        reached = sum(other == node_id or self._reaches(node_id, other) for other in running)
        return node_id in running and 2 * reached >= len(running)

    def tick(self, now_ms: int) -> None:
        """Have a successor take office where that is due, and do what the controller has to do now."""
        holder = self.holder
        if holder is None:
            self._elect()
        elif self.is_fit(holder):
            self._unfit_since_ms = None
        elif self._unfit_since_ms is None:
            self._unfit_since_ms = now_ms
        elif now_ms - self._unfit_since_ms >= self.fetch_timeout_ms:
            self._elect()
        if self._term is not None and self.controller is not None and self.is_fit(self._term.node_id):
            self._term.compact(self.controller.image)
            self._term.level()
            self.feeds.catch_up()
            self.controller.tick(now_ms)

    def _elect(self) -> None:
        candidates = [node_id for node_id in self._running() if self.is_fit(node_id)]
        successor = self.copies.newest(candidates)
        if successor is None or successor == self.holder:
            return
        try:
            former = self.holder
            self.take(successor)
            why = "" if former is None else f": node {former} does not reach the others"
            _log.info("node %d is the controller now, in term %d%s", successor, self.epoch, why)
        except (OSError, KcliError) as error:
            _log.error("node %d cannot be the controller: %s", successor, error)
            self._failed(successor, error)


class ControllerLink:
    """The way from node `node_id` to the controller."""

    __slots__ = ("_office", "node_id")

    def __init__(self, node_id: int, office: ControllerOffice) -> None:
        self.node_id = node_id
        self._office = office

    def current(self) -> Controller:
        """Return the controller. Raises `KafkaError` NOT_CONTROLLER if there is none, or none in reach."""
        return self._office.reached_from(self.node_id)

    @property
    def controller_id(self) -> int:
        """The node that is known to be the controller, -1 if none is."""
        holder = self._office.holder
        return -1 if holder is None else holder

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Have a leader change its in-sync replicas. Raises `KafkaError` as `current` does."""
        return self.current().alter_partition(request)
