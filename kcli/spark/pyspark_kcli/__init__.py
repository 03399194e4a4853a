"""Lets PySpark find the format `kcli`: it looks for `DefaultSource` in modules named `pyspark_*`.

It is installed as a top-level module beside `kcli`.
"""

try:
    from kcli.spark.datasource.data_source import KcliDataSource as DefaultSource
except ImportError:
    # kcli without its extra `spark`, or an older PySpark: this must not be in the way of other formats,
    # which are looked for in the same pass.
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
