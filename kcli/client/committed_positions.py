"""CommittedPositions: gives assigned partitions the offsets that their group has committed.

One request asks for all that are new, and again after a backoff that doubles for as long as the answer is
"later". A partition without a committed offset is left to `auto.offset.reset`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.backoff import Backoff
from kcli.client.subscription import FetchState
from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.client.client import Client
    from kcli.client.group_commits import GroupCommits
    from kcli.client.subscription import AssignedPartition, Subscription


class CommittedPositions:
    """The look-ups of one consumer. `ended` is called after each, with what will not pass if anything."""

    def __init__(
        self,
        client: Client,
        subscription: Subscription,
        *,
        commits: GroupCommits,
        ended: Callable[[KcliError | None], None],
    ) -> None:
        self._subscription = subscription
        self._commits = commits
        self._ended = ended
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._in_flight = False
        self._not_before = -math.inf

    def start(self, nursery: trio.Nursery) -> float:
        """Start a look-up if one is due; return when the next one is."""
        if self._in_flight:
            return math.inf
        waiting = self._subscription.initializing()
        if not waiting:
            return math.inf
        if self._not_before <= trio.current_time():
            self._in_flight = True
            nursery.start_soon(self._look_up, waiting)
            return math.inf
        return self._not_before

    async def _look_up(self, waiting: list[AssignedPartition]) -> None:
        failure: KcliError | None = None
        try:
            found = await self._commits.fetch(state.partition for state in waiting)
        except KcliError as error:
            self._not_before = trio.current_time() + self._backoff.next_delay()
            if not self._commits.passes(error):
                failure = error
        else:
            self._backoff.reset()
            self._not_before = -math.inf
            for state in waiting:
                # A partition that was sought meanwhile has a position of its own.
                if state.state is FetchState.INITIALIZING:
                    committed = found.get(state.partition)
                    if committed is None:
                        state.reset(self._subscription.reset_strategy)
                    else:
                        state.seek(committed.offset)
                        state.committed = committed.offset
        finally:
            self._in_flight = False
        self._ended(failure)
