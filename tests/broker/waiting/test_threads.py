"""A call that belongs into a thread is made where none can be started, too."""

from __future__ import annotations

import threading

import pytest
import trio

from kcli.broker.waiting.threads import run_in_thread


async def test_it_is_made_in_a_thread() -> None:
    assert await run_in_thread(threading.get_ident) != threading.get_ident()


async def test_without_memory_for_a_thread_it_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_sync(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    assert await run_in_thread(threading.get_ident) == threading.get_ident()


async def test_an_error_of_the_call_is_passed_on_and_nothing_is_called_twice() -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        await run_in_thread(fail)
    assert calls == [1]
