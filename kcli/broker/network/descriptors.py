"""Descriptors: the file descriptors of the process, and how many of them are kept for files.

Sockets and log files share one limit, `RLIMIT_NOFILE`. Listeners stop accepting before it is reached, so that
clients, however many, never take the descriptors with which logs roll and checkpoints are written. New logs
are refused, too, while they would take what a running broker needs.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
from typing import NamedTuple

import trio

from kcli.protocol.error_codes import ErrorCode, KafkaError

LEAST_RESERVE, MOST_RESERVE = 64, 1024
LOOK_SECONDS = 0.1
"""The time between looks whether enough descriptors are free again."""

_log = logging.getLogger(__name__)


class DescriptorCounts(NamedTuple):
    """The limit of the process, how many it keeps for files and has open; how often accepting stopped."""

    limit: int
    reserve: int
    open: int
    accepting_stopped: int


class Descriptors:
    """The descriptors of one process; all listeners of all its nodes ask the same object."""

    def __init__(self) -> None:
        self.is_short = False
        """Whether listeners wait until connections end."""
        self.accepting_stopped = 0
        self._room = 0
        """A lower bound of the descriptors that new logs may take, so that few requests count."""
        self.read_limit()

    def read_limit(self) -> None:
        """Use the limit that the process has now."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limit = sys.maxsize if soft == resource.RLIM_INFINITY else soft
        self.reserve = min(max(self.limit // 8, LEAST_RESERVE), self.limit // 4, MOST_RESERVE)
        self.first_reserved = self.limit - self.reserve
        """A socket with this number, or a higher one, means that all others are in use."""

    def count(self) -> int:
        """Return how many descriptors are open; with none left to count them, the limit."""
        try:
            return len(os.listdir("/dev/fd")) - 1
        except OSError:
            return self.limit

    def counts(self) -> DescriptorCounts:
        return DescriptorCounts(self.limit, self.reserve, self.count(), self.accepting_stopped)

    def stop_accepting(self) -> None:
        """Let the listeners wait for `until_enough`."""
        if not self.is_short:
            self.is_short = True
            self.accepting_stopped += 1
            _log.error(
                "no connections are accepted until others end: %d of %d file descriptors are open, %d are"
                " kept for files; raise the limit: `ulimit -n`",
                self.count(),
                self.limit,
                self.reserve,
            )

    async def until_enough(self) -> None:
        """Return when a quarter of the reserve is free beside the reserve."""
        while self.is_short:
            await trio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Let the listeners accept again if enough descriptors are free."""
        self.read_limit()
        if self.is_short and self.count() <= self.first_reserved - self.reserve // 4:
            self.is_short = False
            _log.info("connections are accepted again")

    def check_room(self, logs: int, pending: int = 0) -> None:
        """Raise `KafkaError` KAFKA_STORAGE_ERROR if there are no descriptors for new logs.

        `pending` are those that the same request creates. Half of the reserve stays free.
        """
        self._room -= logs
        if self._room >= 0:
            return
        self.read_limit()
        is_open = self.count()
        room = self.limit - is_open - self.reserve // 2 - pending
        if logs > room:
            self._room = 0
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"no file descriptors for {logs} more logs: {is_open} of {self.limit} are open",
                hint="try again when connections have ended, or raise the limit of the broker: `ulimit -n`",
            )
        self._room = (room - logs) // 2
