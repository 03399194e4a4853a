"""Pinger: a client that asks for nothing much all the time, and how long it has to wait.

Beside other tests a wait is as long as the machine is busy. What the server worked meanwhile is not: it tells
how long the wait is where nothing else runs.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from tests.support.processes import ChildProcess

PAUSE_SECONDS = 0.002


class Pinger:
    """Pings from a thread of its own, inside a `with`; afterwards `delays` has the seconds of each.

    `works` has the seconds of processor time that the server took during each, if its process is given.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        server: ChildProcess | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.delays: list[float] = []
        self.works: list[float] = []
        self._server = server
        self._client = RawClient(bootstrap, timeout=60)
        if context is not None:
            self._client.socket = context.wrap_socket(self._client.socket, server_hostname="localhost")
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
            started, worked = time.perf_counter(), self._worked()
            self._client.send(frame)
            assert self._client.receive_frame() is not None
            self.delays.append(time.perf_counter() - started)
            self.works.append(self._worked() - worked)
            if self._stopped.wait(PAUSE_SECONDS):
                return

    def _worked(self) -> float:
        return 0.0 if self._server is None else self._server.cpu_seconds()

    @property
    def most_work_ms(self) -> float:
        """The most that the server worked while an answer was waited for, in milliseconds."""
        assert self._server is not None
        return max(self.works) * 1000

    @property
    def longest_ms(self) -> float:
        """The longest wait for an answer, in milliseconds."""
        return max(self.delays) * 1000
