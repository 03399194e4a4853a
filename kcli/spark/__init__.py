"""Topics as DataFrames and Parquet files: the source and sink for PySpark, and the export built on them.

Everything here needs `kcli[spark]`, and nothing outside this room imports it except inside a command's body.
pyspark itself is imported by `session`, `engine_spark`, `datasource` and their neighbours only: splits are
planned, read, decoded and committed without Java.
"""
