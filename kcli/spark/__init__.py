"""Topics as DataFrames and Parquet files: PySpark's format `kcli`, the export and the import.

The extra `spark` installs what it needs. No other room imports it, except commands inside functions. Only
`datasource`, `engines` and `python_worker` import pyspark: the local engine plans, reads, decodes and commits
without Java.
"""

from __future__ import annotations

from typing import Any


def offsets_behind_latest(progress: Any) -> dict[str, str]:  # noqa: ANN401  # a StreamingQueryProgress, a dict
    """Return how far a streaming query is behind its topics, given its `lastProgress`.

    Names and form are those of the metrics of Spark's own Kafka source: `minOffsetsBehindLatest`,
    `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`. Spark takes no metrics from sources in Python, but its
    progress has the offsets that were read and those there were. Empty before the first batch.
    """
    from kcli.spark.source.ranges.behind import behind_latest

    return behind_latest((one["endOffset"], one["latestOffset"]) for one in progress["sources"])


def register(session: Any) -> None:  # noqa: ANN401  # a SparkSession, whichever of its two kinds
    """Make the format `kcli` known to a Spark session.

    Not needed where kcli is installed as a package, other than editable: Spark then finds it by itself.
    """
    from kcli.spark.datasource.data_source import register_format

    register_format(session)
