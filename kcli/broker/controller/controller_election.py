"""ControllerElection: which node is the controller. It takes the place of KRaft's election.

One node at a time is the controller, in an epoch of its own. It stays so while it runs and reaches at least
half of the running nodes. If a link between two nodes is cut, the controller goes on: a quorum of two voters
would stop, and a test could not see the other node fenced.

| the controller's node | its successor is elected |
|---|---|
| ends | at once |
| is paused or cut off | after `controller.quorum.fetch.timeout.ms` |

The successor is the node with the newest copy of the metadata log among those that reach at least half. Until
then every request to the controller is answered NOT_CONTROLLER. No decision is forgotten while the process
runs: a successor whose copy lacks some gets them as a snapshot first.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.config.broker_definitions import BrokerSettings
from kcli.broker.controller.credential_records import hold_credentials
from kcli.broker.metadata.metadata_log import MetadataLogFailed
from kcli.broker.metadata.metadata_replay import replay
from kcli.errors import KcliError, reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.disk import is_shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kcli.broker.controller.controller import Controller, ControllerLog
    from kcli.broker.metadata.metadata_copies import MetadataCopies
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.metadata.metadata_log import MetadataLog
    from kcli.broker.metadata.metadata_publisher import MetadataPublisher
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord

_log = logging.getLogger(__name__)


class ReplicatedMetadataLog:
    """The log of one controller: the copy of its node, and then those of the nodes that it reaches.

    Once the epoch `is_over`, or the node is cut off from more than half of the others, `append` raises
    NOT_CONTROLLER. `failed` gets the error of a node's copy.
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
        return self._log.epoch

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    def copy_ends(self) -> dict[int, int]:
        return {
            node_id: copy.end_offset
            for node_id, copy in self._copies
            if node_id == self.node_id or self._reaches(node_id)
        }

    def begin_epoch(self) -> int:
        """Begin an epoch higher than any copy knows, in every reachable copy."""
        self.level()
        epoch = max(copy.next_epoch for _, copy in self._copies)
        voters = [node_id for node_id, _ in self._copies]
        self._log.begin_epoch(epoch, voters)
        self._each(lambda copy: copy.note_epoch(epoch, leader=self.node_id, voters=voters))
        self.level()
        return epoch

    def compact(self, image: MetadataImage) -> None:
        """Replace a long log by a snapshot, in every reachable copy."""
        if not self._log.is_long:
            return
        self._log.compact(image)
        snapshot = self._log.snapshot()
        assert snapshot is not None
        self._each(lambda copy: copy.install(*snapshot, sync=False))

    def append(self, records: Sequence[MetadataRecord | SecurityRecord], metadata_version: int) -> int:
        """Write one decision, durably in this node's copy. Raises `OSError` and `KafkaError`."""
        if self.is_over:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} is not the controller any more")
        if not self._may_decide():
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {self.node_id}, the controller, is cut off from most nodes"
            )
        start = self._log.end_offset
        batch = self._log.encode(records, metadata_version)
        if hold_credentials(records):
            for _node_id, copy in self._copies:
                copy.make_private()
        try:
            self._log.write(batch)
            self._log.sync()
        except (OSError, MetadataLogFailed) as error:
            if not is_shortage(error):
                # The node can neither decide nor follow the metadata any more.
                self._failed(self.node_id, _failure(self._log, error))
            raise
        self._each(lambda copy: self._extend(copy, start, batch))
        return self._log.end_offset - 1

    def level(self) -> None:
        """Bring every reachable copy up to date."""
        self._each(lambda copy: self._extend(copy, -1, b""))

    def _extend(self, copy: MetadataLog, start: int, batch: bytes | bytearray) -> None:
        """Write a batch to a copy that lacks only this, else bring the copy up to date."""
        if (copy.epoch, copy.end_offset) == (self._log.epoch, start):
            copy.write(batch)
        elif (copy.epoch, copy.end_offset) != (self._log.epoch, self._log.end_offset):
            copy.follow(self._log)

    def _each(self, change: Callable[[MetadataLog], None]) -> None:
        """Change every reachable copy of another node; an error is the failure of that node."""
        for node_id, copy in self._copies:
            if node_id != self.node_id and self._reaches(node_id):
                try:
                    change(copy)
                except OSError as error:
                    if is_shortage(error):
                        _log.error("%s; it is tried again", _failure(copy, error).message)
                    else:
                        self._failed(node_id, _failure(copy, error))
                except KafkaError as error:
                    self._failed(node_id, error)


def _failure(copy: MetadataLog, error: OSError | MetadataLogFailed) -> KcliError:
    if isinstance(error, MetadataLogFailed):
        return error
    return KcliError(f"cannot write the metadata log in `{copy.directory}`: {reason_of(error)}")


class ControllerElection:
    """The election of one cluster.

    `make` makes a controller for a node, from its log and image. `running` returns the nodes that run and are
    not paused, `reaches` whether two nodes reach each other. `failed` gets the error of a node's copy.
    """

    def __init__(
        self,
        copies: MetadataCopies,
        publisher: MetadataPublisher,
        *,
        make: Callable[[int, ControllerLog, MetadataImage], Controller],
        running: Callable[[], Collection[int]],
        reaches: Callable[[int, int], bool],
        failed: Callable[[int, Exception], None],
    ) -> None:
        self.copies = copies
        self.publisher = publisher
        self.fetch_timeout_ms = BrokerSettings.controller_quorum_fetch_timeout_ms.default
        self.controller: Controller | None = None
        self._log: ReplicatedMetadataLog | None = None
        self._make = make
        self._running = running
        self._reaches = reaches
        self._failed = failed
        self._unfit_since_ms: int | None = None

    @property
    def controller_id(self) -> int | None:
        return None if self._log is None else self._log.node_id

    @property
    def epoch(self) -> int:
        """The newest controller epoch."""
        return self.publisher.latest.epoch

    def reached_from(self, node_id: int) -> Controller:
        """Return the controller, for a call from a node. Raises `KafkaError` NOT_CONTROLLER."""
        controller, controller_id = self.controller, self.controller_id
        if controller is None or controller_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no node is the controller, for now")
        if controller_id not in self._running():
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {controller_id}, the controller, does not answer"
            )
        if not self._reaches(node_id, controller_id):
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"node {node_id} cannot reach node {controller_id}, the controller"
            )
        return controller

    def is_fit(self, node_id: int) -> bool:
        """Return whether a node runs and reaches at least half of the running nodes."""
        running = self._running()
        reached = sum(other == node_id or self._reaches(node_id, other) for other in running)
        return node_id in running and 2 * reached >= len(running)

    def elect(
        self, node_id: int, *, inspect: Callable[[MetadataImage, MetadataLog], None] | None = None
    ) -> Controller:
        """Make a node the controller, unless `inspect` raises an error about its image and log.

        Raises `OSError`, `KcliError` and `KafkaError`.
        """
        image = self._image_for(node_id)
        if inspect is not None:
            inspect(image, self.copies[node_id])
        self.resign()
        log = ReplicatedMetadataLog(
            self.copies,
            node_id,
            reaches=lambda other: other in self._running() and self._reaches(node_id, other),
            may_decide=lambda: self.is_fit(node_id),
            failed=self._failed,
        )
        controller = self._make(node_id, log, image)
        self._log, self.controller, self._unfit_since_ms = log, controller, None
        try:
            controller.begin_epoch()
        except (OSError, KafkaError):
            self.resign()
            raise
        self.publisher.publish(controller.image)
        return controller

    def resign(self) -> None:
        """End the epoch; no node is the controller."""
        if self._log is not None:
            self._log.is_over = True
        self._log = self.controller = self._unfit_since_ms = None

    def node_gone(self, node_id: int, now_ms: int) -> None:
        """Elect a successor at once if the controller's node has ended."""
        if node_id == self.controller_id:
            self.resign()
            self.tick(now_ms)

    def move_to(self, node_id: int) -> None:
        """Make a node the controller on request. Raises `KcliError` if it cannot be."""
        if node_id == self.controller_id:
            return
        if node_id not in self._running():
            raise KcliError(f"node {node_id} does not run")
        if not self.is_fit(node_id):
            raise KcliError(f"node {node_id} is cut off from most nodes")
        try:
            self.elect(node_id)
        except OSError as error:
            refusal = KcliError(f"node {node_id} cannot be the controller: {error.strerror}")
            if not is_shortage(error):
                self._failed(node_id, refusal)
            raise refusal from error
        _log.info("node %d is the controller now, in epoch %d", node_id, self.epoch)

    def move_from(self, node_id: int) -> None:
        """Make any other node the controller, because this one stops."""
        candidates = [each for each in self._running() if each != node_id and self.is_fit(each)]
        while (successor := self.copies.newest(candidates)) is not None:
            try:
                return self.move_to(successor)
            except KcliError as error:
                _log.warning("%s", error.message)
                candidates.remove(successor)

    def _image_for(self, node_id: int) -> MetadataImage:
        """Return the image of a node's copy, after completing the copy with what it lacks."""
        log, latest = self.copies[node_id], self.publisher.latest
        if log.end_offset <= latest.offset or log.epoch < latest.epoch:
            log.restart_from(latest)
        if log.end_offset == latest.offset + 1 and log.epoch == latest.epoch:
            return latest
        return replay(log.replay())

    def tick(self, now_ms: int) -> None:
        """Elect a successor if one is due, and let the controller do what is due."""
        controller_id = self.controller_id
        if controller_id is None:
            self._elect_newest()
        elif self.is_fit(controller_id):
            self._unfit_since_ms = None
        elif self._unfit_since_ms is None:
            self._unfit_since_ms = now_ms
        elif now_ms - self._unfit_since_ms >= self.fetch_timeout_ms:
            self._elect_newest()
        if self._log is not None and self.controller is not None and self.is_fit(self._log.node_id):
            self._log.compact(self.controller.image)
            self._log.level()
            self.publisher.catch_up()
            self.controller.tick(now_ms)

    def _elect_newest(self) -> None:
        candidates = [node_id for node_id in self._running() if self.is_fit(node_id)]
        successor = self.copies.newest(candidates)
        if successor is None or successor == self.controller_id:
            return
        former = self.controller_id
        try:
            self.elect(successor)
            why = "" if former is None else f": node {former} does not reach the others"
            _log.info("node %d is the controller now, in epoch %d%s", successor, self.epoch, why)
        except (OSError, KcliError) as error:
            _log.error("node %d cannot be the controller: %s", successor, error)
            if not is_shortage(error):
                self._failed(successor, error)


class ControllerLink:
    """Finds the controller for node `node_id`, anew for each call."""

    def __init__(self, node_id: int, election: ControllerElection) -> None:
        self.node_id = node_id
        self._election = election

    def current(self) -> Controller:
        """Return the controller. Raises `KafkaError` NOT_CONTROLLER if this node reaches no controller."""
        return self._election.reached_from(self.node_id)

    @property
    def controller_id(self) -> int:
        """The controller's node, -1 between two controllers."""
        controller_id = self._election.controller_id
        return -1 if controller_id is None else controller_id
