"""Topics as DataFrames and Parquet files: the source and sink for PySpark, and the export built on them.

Everything here needs the extra `spark`, and nothing outside this room imports it but inside a command's body.
pyspark itself is imported by `session`, `engine_spark`, `datasource` and their neighbours only: splits are
planned, read, decoded and committed without Java.
"""

from __future__ import annotations

from typing import Any


def register(session: Any) -> None:  # noqa: ANN401  # a SparkSession, whichever of its two kinds
    """Make the format `kcli` known to a Spark session.

    Not needed where kcli is installed as a package, other than editable: Spark then finds it by itself.
    """
    from kcli.spark.datasource.data_source import KcliDataSource

    session.dataSource.register(KcliDataSource)
