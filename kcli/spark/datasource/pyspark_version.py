"""What PySpark's data sources can do by version: 4.0 reads batches and streams, 4.1 pushes filters down.

4.2 limits the batches of a stream (`maxOffsetsPerTrigger` and its like). Writing Arrow batches is
offered since then, too: 4.0 fails in the JVM.
"""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql import datasource

from kcli.errors import UsageError

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    can_limit_batches = True
except ImportError:  # before 4.2
    can_limit_batches = False

    class _Absent:
        """Stands for a class that nobody makes an object of."""

    ReadAllAvailable = ReadMaxRows = ReadMinRows = SupportsTriggerAvailableNow = _Absent

can_push_filters = hasattr(datasource, "Filter")

DataSourceStreamArrowWriter: Any = getattr(
    datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
)

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "can_limit_batches",
    "can_push_filters",
    "check_version",
]


def check_version(what: str, *, can: bool, version: str) -> None:
    """Raise `UsageError` unless this PySpark can do `what`, which came with a version."""
    if not can:
        raise UsageError(
            f"{what} needs PySpark {version} or newer: {pyspark.__version__} is installed",
            hint=f"pip install 'pyspark>={version}'",
        )
