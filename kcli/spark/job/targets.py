"""`open_target`: what a `--to` names, as a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.spark.job.target import Target


def open_target(uri: str) -> Target:
    """Return the target of a path, a `file:` URI, or another URI that pyarrow has a file system for."""
    raise NotImplementedError
