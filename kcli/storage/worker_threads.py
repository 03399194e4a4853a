"""Running jobs in a few threads, for recovery: reading and checksums let other threads go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run_all(jobs: Sequence[Callable[[], None]], thread_count: int) -> None:
    """Run jobs in several threads, or in this one; raise the first exception when all have ended."""
    if thread_count <= 1 or len(jobs) <= 1:
        for job in jobs:
            job()
        return
    remaining = iter(jobs)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            with lock:
                job = next(remaining, None)
            if job is None:
                return
            try:
                job()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, name=f"log-recovery-{n}") for n in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
