"""Setbacks: what keeps a producer's batches, or an answer, from being delivered while they are tried again.

A short one, as when a leader changes, is nobody's business. One that goes on is told, once for whom it
concerns (a partition, a broker) and each error; and the last is kept, to be named where time runs out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.network.connection import RequestTimedOut
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.network.metadata import ClusterMetadata
    from kcli.client.producer.producer_batch import ProducerBatch
    from kcli.errors import KcliError
    from kcli.protocol.topics import TopicPartition

PATIENCE_SECONDS = 3.0
"""How long a batch is held up when what it meets is told: by then a handful of tries have failed."""


class Setbacks:
    """Tells `warn` one line for each subject and error."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._told: set[tuple[str, ErrorCode]] = set()
        self._last: dict[TopicPartition, tuple[KafkaError, float]] = {}

    def met(self, batch: ProducerBatch, error: KafkaError, *, subject: str | None = None) -> None:
        """Note what keeps a batch waiting; it is its partition's affair unless there is another subject."""
        now = trio.current_time()
        self._last[batch.partition] = error, now
        if batch.held_up_at is None:
            batch.held_up_at = now
        if now < batch.held_up_at + PATIENCE_SECONDS:
            return
        told = (subject or str(batch.partition), error.code)
        if told not in self._told:
            self._told.add(told)
            self._warn(f"{told[0]}: still trying: {named(error)}")

    def met_no_leader(self, batch: ProducerBatch, cluster: ClusterMetadata) -> float:
        """Note that nobody is known to lead the partition of a batch; return when to say so again.

        There is no try that would fail then, and what is short is not told.
        """
        if not cluster.nodes:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker can be reached")
            self.met(batch, error, subject="cluster")
        else:
            code = cluster.errors.get(batch.partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)
            self.met(batch, KafkaError(code))
        assert batch.held_up_at is not None
        due = batch.held_up_at + PATIENCE_SECONDS
        return due if due > trio.current_time() else math.inf

    def expired(self, batch: ProducerBatch, timeout_ms: int) -> KafkaError:
        """Return the error of a batch that ran out of time, with what its partition met last meanwhile."""
        error, when = self._last.get(batch.partition, (None, 0.0))
        last = f": {named(error)}" if error is not None and when >= batch.created_at else ""
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {timeout_ms} ms{last}")


class HeldUp:
    """Tells `warn` one line for each error that keeps an answer away for long; `last` is the newest."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.last = ""
        self._warn = warn
        self._told: set[tuple[str, ErrorCode]] = set()

    def met(self, subject: str, error: KafkaError, *, since: float) -> None:
        """Note what stands in the way of an answer that has been waited for `since` then."""
        self.last = f"{subject}: {named(error)}"
        told = (subject, error.code)
        if trio.current_time() >= since + PATIENCE_SECONDS and told not in self._told:
            self._told.add(told)
            self._warn(f"{subject}: still trying: {named(error)}")


def lost(error: KcliError) -> KafkaError:
    """Return why a broker gave no answer as an error with a name."""
    timed_out = isinstance(error, RequestTimedOut)
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT if timed_out else ErrorCode.NETWORK_EXCEPTION, error.message
    )


def broker(node_id: int) -> str:
    """Return a broker as the subject of a setback."""
    return f"broker {node_id}"


def named(error: KafkaError) -> str:
    """Return an error's name and text."""
    return f"{error.code.name}: {error.message}"
