"""FetchSessionCache: the partitions of fetchers, kept from request to request (KIP-227).

| session epoch of a request | effect |
|---|---|
| 0 | opens a session, closes the one it names |
| -1 | closes the session, opens none |
| the session's next | the request lists only partitions to add, change or forget, the response only news |

Session id 0 means "no session".

The cache holds a fixed number of sessions. A new session displaces one that was unused for two minutes, or
else one that is worth less: followers count more than consumers, larger sessions more than smaller. No
session younger than two minutes is displaced. All sessions together hold at most `MAX_PARTITIONS`: beyond
that none is opened, and a session that grows is dropped, so its fetcher asks in full again (classes
`FetchSession`, `FetchSessionCacheShard`, `FetchManager`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kcli.broker.replication.fetch_data import FetchedPartition, FetchPartition, FetchPartitionKey

    SessionAnswer = tuple[ErrorCode, int, list[FetchedPartition]]

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_PARTITIONS = 250_000
"""About a hundred megabytes. Kafka limits only the number of sessions."""
_INT_MAX = 2**31 - 1


class FetchSession:
    """The partitions of one session; those that returned data longest ago come first."""

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "partitions", "privileged", "uses_topic_ids")

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.partitions: dict[FetchPartitionKey, FetchPartition] = {}

    def update(self, wanted: Iterable[FetchPartition], forgotten: Iterable[FetchPartitionKey]) -> None:
        for partition in wanted:
            key = partition.key
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.update(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def begin(self, now_ms: int) -> None:
        """Note that the request of this epoch is here."""
        self.last_used_ms = now_ms
        self.epoch = 1 if self.epoch == _INT_MAX else self.epoch + 1

    def put_last(self, key: FetchPartitionKey) -> None:
        """Let a partition that returned data come behind the others next time, so none starves."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.partitions[key] = partition

    @property
    def worth(self) -> tuple[bool, int, int]:
        """Of two sessions the one with the greater worth stays."""
        return self.privileged, len(self.partitions), self.id


class FetchContext:
    """One request's view of its session. This base answers all rows, or a session error, and keeps none."""

    __slots__ = ("error", "partitions")

    def __init__(
        self, partitions: Collection[FetchPartition] = (), error: ErrorCode = ErrorCode.NONE
    ) -> None:
        self.partitions = partitions
        self.error = error

    def answer(self, rows: list[FetchedPartition], now_ms: int) -> SessionAnswer:
        """Return (error, session id, rows to send), and note that they are sent."""
        return self.error, NO_SESSION, rows

    def news(self, rows: list[FetchedPartition]) -> list[FetchedPartition]:
        """Return the rows of an answer, and note nothing."""
        return rows

    def throttled(self) -> tuple[ErrorCode, int]:
        """Return (error, session id) of an answer without rows, which leaves the session as it is."""
        return ErrorCode.NONE, NO_SESSION


class FullFetchContext(FetchContext):
    """A request that opens a session, if there is room."""

    __slots__ = ("_cache", "_privileged", "_uses_topic_ids")

    def __init__(
        self,
        partitions: Collection[FetchPartition],
        cache: FetchSessionCache,
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def answer(self, rows: list[FetchedPartition], now_ms: int) -> SessionAnswer:
        session = self._cache.create(
            len(rows), privileged=self._privileged, uses_topic_ids=self._uses_topic_ids, now_ms=now_ms
        )
        if session is None:
            return ErrorCode.NONE, NO_SESSION, rows
        for row in rows:
            partition = row.request
            partition.sent_high_watermark = row.high_watermark
            partition.sent_log_start_offset = row.log_start_offset
            session.partitions[partition.key] = partition
        return ErrorCode.NONE, session.id, rows


class IncrementalFetchContext(FetchContext):
    """A request that continues a session."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def answer(self, rows: list[FetchedPartition], now_ms: int) -> SessionAnswer:
        session = self._session
        if session.epoch != self._epoch:  # The same request came twice, on two connections.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
        news = []
        for row in rows:
            is_news = _is_news(row)
            _note_sent(row)
            if is_news:
                news.append(row)
                if row.size:
                    session.put_last(row.request.key)
        return ErrorCode.NONE, session.id, news

    def news(self, rows: list[FetchedPartition]) -> list[FetchedPartition]:
        return [row for row in rows if _is_news(row)] if self._session.epoch == self._epoch else []

    def throttled(self) -> tuple[ErrorCode, int]:
        session = self._session
        is_twice = session.epoch != self._epoch
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH if is_twice else ErrorCode.NONE, session.id


def _is_news(row: FetchedPartition) -> bool:
    """Return whether the fetcher must get `row`."""
    partition = row.request
    return (
        row.size > 0
        or row.error_code != 0
        or row.diverging is not None
        or row.preferred_read_replica != -1
        or partition.sent_high_watermark != row.high_watermark
        or partition.sent_log_start_offset != row.log_start_offset
    )


def _note_sent(row: FetchedPartition) -> None:
    """Note what the fetcher knows after `row`."""
    partition = row.request
    # After an error, -1 makes sure that the fetcher gets the next state.
    partition.sent_high_watermark = row.high_watermark if row.error_code == 0 else -1
    partition.sent_log_start_offset = row.log_start_offset


class FetchSessionCache:
    """The fetch sessions of one node, at most `slots`."""

    def __init__(self, slots: int = 1000, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._new_id = new_id or (lambda: random.randint(1, _INT_MAX))

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def partitions(self, session_id: int) -> list[FetchPartition]:
        """Return the partitions of a session, empty if the session is unknown."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    def open(
        self,
        session_id: int,
        epoch: int,
        wanted: dict[FetchPartitionKey, FetchPartition],
        forgotten: Iterable[FetchPartitionKey] = (),
        *,
        uses_topic_ids: bool,
        privileged: bool = False,
        now_ms: int,
    ) -> FetchContext:
        """Return what a request with this session id and epoch reads."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return FetchContext(wanted.values())
            return FullFetchContext(
                wanted.values(), self, privileged=privileged, uses_topic_ids=uses_topic_ids
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.partitions)
        session.update(wanted.values(), forgotten)
        if len(session.partitions) > before and self.partition_count > MAX_PARTITIONS:
            del self._sessions[session_id]
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchContext()
        session.begin(now_ms)
        return IncrementalFetchContext(session)

    def consumer_session(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession | None:
        """Return the session of a consumer whose next request has this epoch, None if there is none."""
        session = self._sessions.get(session_id)
        if (
            session is None
            or session.epoch != epoch
            or session.uses_topic_ids != uses_topic_ids
            or session.privileged
        ):
            return None
        return session

    def create(
        self, size: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Return a new session for `size` partitions, None if there is no room."""
        if size + self.partition_count > MAX_PARTITIONS:
            return None
        if len(self._sessions) >= self._slots and not self._displace(privileged, size, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(
            session_id, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        return session

    def _displace(self, privileged: bool, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        victim = min(self._sessions.values(), key=lambda session: (session.last_used_ms, session.id))
        if now_ms - victim.last_used_ms <= EVICTION_MS:
            candidates = [
                session
                for session in self._sessions.values()
                if session.last_used_ms - session.created_ms > EVICTION_MS
                or (privileged and not session.privileged)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=lambda session: session.worth)
            if (privileged, size, 0) < victim.worth:
                return False
        del self._sessions[victim.id]
        return True
