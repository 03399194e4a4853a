"""Pinger: a client that asks for nothing much all the time, and how long it has to wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from types import TracebackType

PAUSE_SECONDS = 0.002


class Pinger:
    """Pings from a thread of its own, inside a `with`; afterwards `delays` has the seconds of each."""

    def __init__(self, bootstrap: str) -> None:
        self.delays: list[float] = []
        self._client = RawClient(bootstrap, timeout=120)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Pinger:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        frame = request_frame(ApiVersionsRequest(), 0)
        while True:
            started = time.perf_counter()
            self._client.send(frame)
            assert self._client.receive_frame() is not None
            self.delays.append(time.perf_counter() - started)
            if self._stopped.wait(PAUSE_SECONDS):
                return

    @property
    def longest_ms(self) -> float:
        """The longest wait for an answer, in milliseconds."""
        return max(self.delays) * 1000
