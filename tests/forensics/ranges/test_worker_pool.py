"""WorkerPool: tasks are shared out, repeated when a worker dies, and nobody is left at work."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from kcli.forensics.ranges.worker_pool import Done, Piece, Send, WorkerGone, WorkerPool


def work(task: tuple[str, Path | None], send: Send) -> None:
    """Send the task in capitals; die instead while its file exists, which is removed first."""
    text, trouble = task
    if trouble is not None and trouble.exists():
        trouble.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    send(len(text))
    send(Done(text.upper()))


SPAWNED = f"{__name__}:work"


@pytest.fixture(params=["forked", "spawned"])
def pool(request: pytest.FixtureRequest) -> WorkerPool:
    return WorkerPool.forked(work, 2) if request.param == "forked" else WorkerPool.spawned(SPAWNED, 2)


def test_every_task_is_done_once(pool: WorkerPool) -> None:
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    with closing(pool):
        found = [*pool.share_out((text, None) for text in texts)]
    expected: list[tuple[int, object]] = [(number, Done(text.upper())) for number, text in enumerate(texts)]
    expected += [(number, len(text)) for number, text in enumerate(texts)]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_task_whose_worker_dies_is_repeated(pool: WorkerPool, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.touch()
    with closing(pool):
        found = [*pool.share_out([("a", None), ("b", trouble), ("c", None)], attempts=2)]
    assert [number for number, message in sorted(found, key=str) if isinstance(message, Done)] == [0, 1, 2]


def test_a_task_that_kills_every_worker_is_told(pool: WorkerPool, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.touch()
    with closing(pool), pytest.raises(WorkerGone) as gone:
        [*pool.share_out([("a", None), ("b", trouble)])]
    assert (gone.value.number, gone.value.how) == (1, "signal SIGKILL")


def test_a_pool_goes_on_after_a_run_that_was_left(pool: WorkerPool) -> None:
    with closing(pool):
        with closing(pool.share_out([("a", None)] * 9)) as messages:
            next(messages)
        found = [message for _, message in pool.share_out([("b", None)]) if isinstance(message, Done)]
    assert found == [Done("B")]


def test_bytes_arrive_in_pieces_between_messages() -> None:
    def send_bytes(task: int, send: Send) -> None:
        send(bytes(task))
        send("end")

    with WorkerPool.forked(send_bytes, 1) as pool:
        pool.give(0, 3_000_000)
        sizes = []
        while isinstance(message := pool.receive(0), Piece):
            sizes.append(len(message.read()))
    assert (sum(sizes), len(sizes), message) == (3_000_000, 3, "end")
