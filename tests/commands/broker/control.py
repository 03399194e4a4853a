"""A control socket of a process that is not there, for commands that ask it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from kcli.broker.process.control_server import ControlServer
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kcli.broker.process.control_server import Operation


@contextmanager
def answering(data_dir: Path, operations: Mapping[str, Operation]) -> Iterator[None]:
    """Answer the operations from a thread."""
    started, token, scope = threading.Event(), [], trio.CancelScope()

    async def serve() -> None:
        server = ControlServer(None, data_dir, operations=lambda: operations)  # type: ignore[arg-type]
        token.append(trio.lowlevel.current_trio_token())
        with scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run)
                started.set()

    thread = threading.Thread(target=partial(trio.run, serve))
    thread.start()
    assert started.wait(PATIENCE_SECONDS)
    try:
        yield
    finally:
        token[0].run_sync_soon(scope.cancel)
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
