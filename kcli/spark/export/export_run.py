"""The run of an export: lock, finish a begun plan, plan, run the tasks, commit; once or repeatedly."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.errors import Interrupted, KcliError, UsageError
from kcli.spark.export.export_session import open_session
from kcli.spark.export.failures import TargetTrouble, is_passing
from kcli.spark.export.options import Mode
from kcli.spark.export.stop_request import stop_requests, termination_interrupts
from kcli.spark.source.ranges.trigger_limits import is_due

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kcli.spark.export.engine import Engine, Progress
    from kcli.spark.export.export_session import ExportSession
    from kcli.spark.export.log.commit import Summary
    from kcli.spark.export.options import ExportOptions, FollowOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source

    Wait = Callable[[float], bool]


def run_export(
    source: Source, target: Target, options: ExportOptions, engine: Engine, progress: Progress
) -> Summary:
    """Export what was asked for and is not in the target yet, and return a summary."""
    began = time.monotonic()
    with (
        explained(target),
        termination_interrupts(),
        open_session(source, target, options, engine, progress) as session,
    ):
        if not session.resume():
            session.export(session.news())
        return session.summary(time.monotonic() - began)


@contextmanager
def explained(target: Target) -> Iterator[None]:
    """Raise errors of the file system and the keyboard as errors for users."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(
            "interrupted", hint="run it again: it goes on where it stopped, nothing is written twice"
        ) from error
    except OSError as error:
        raise TargetTrouble.of(error, target.uri) from error


FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 300.0


def follow_export(
    source: Source,
    target: Target,
    options: ExportOptions,
    engine: Engine,
    progress: Progress,
    *,
    follow: FollowOptions,
    clock: Callable[[], float] = time.monotonic,
    wait: Wait | None = None,
) -> Summary:
    """Export repeatedly until SIGINT, SIGTERM or SIGHUP, and return a summary of all plans.

    The first signal lets a running plan end. A second one raises `Interrupted` and leaves the plan to the
    next run. `wait(seconds)` returns whether to end.
    """
    if options.mode is Mode.SNAPSHOT:
        raise UsageError("a snapshot cannot be followed", hint="follow with `--mode append`")
    began = clock()
    with explained(target), ExitStack() as stack:
        if wait is None:
            wait = stack.enter_context(stop_requests()).wait
        session = stack.enter_context(open_session(source, target, options, engine, progress))
        _Following(session, follow, progress, clock=clock, wait=wait).run()
        return session.summary(clock() - began)


class _Following:
    def __init__(
        self,
        session: ExportSession,
        follow: FollowOptions,
        progress: Progress,
        *,
        clock: Callable[[], float],
        wait: Wait,
    ) -> None:
        self._session = session
        self._follow = follow
        self._progress = progress
        self._clock = clock
        self._wait = wait
        self._planned_at = -math.inf
        self._backoff = FIRST_BACKOFF_SECONDS

    def run(self) -> None:
        pause = 0.0
        while not self._wait(pause):
            try:
                # A backlog larger than one plan is read without pauses.
                pause = 0.0 if self._round() else self._follow.interval_s
                self._backoff = FIRST_BACKOFF_SECONDS
            except (KcliError, OSError) as error:
                if not is_passing(error):
                    raise
                pause, self._backoff = self._backoff, min(self._backoff * 2, MAX_BACKOFF_SECONDS)
                self._progress.note(f"{error}; trying again in {pause:g} s")

    def _round(self) -> bool:
        """Export what is new if there is enough; return whether there is more already."""
        session = self._session
        if session.resume():
            # An earlier run made the plan that replaces the files; this run adds to them.
            session.options = replace(session.options, mode=Mode.APPEND)
        news = session.news()
        triggers = self._follow.triggers
        waited_ms = (self._clock() - self._planned_at) * 1000
        if not is_due(news.starts, news.ends, triggers, waited_ms=waited_ms):
            return False
        limited = news if triggers.max_offsets is None else news.limited(triggers.max_offsets)
        if session.export(limited):
            self._planned_at = self._clock()
            # The first plan replaces the files, the next ones add to them.
            session.options = replace(session.options, mode=Mode.APPEND)
        return limited.ends != news.ends
