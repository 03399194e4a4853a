"""The run of an export: lock, resume what was begun, plan, run the tasks, commit."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import Interrupted
from kcli.spark.job.export_session import open_session
from kcli.spark.job.failures import TargetTrouble
from kcli.spark.job.stopping import termination_interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.spark.job.engine import Engine, Progress
    from kcli.spark.job.options import ExportOptions
    from kcli.spark.job.summary import Summary
    from kcli.spark.job.target import Target
    from kcli.spark.source import Source


def run_export(
    source: Source, target: Target, options: ExportOptions, engine: Engine, progress: Progress
) -> Summary:
    """Export what was asked for and is not yet in the target, exactly once, and return what was done."""
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
    """Turn what the file system and the keyboard raise into errors that users can read."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(
            "interrupted", hint="run it again: it goes on where it stopped, nothing is written twice"
        ) from error
    except OSError as error:
        raise TargetTrouble.of(error, target.uri) from error
