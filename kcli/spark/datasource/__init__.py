"""PySpark's side of the format `kcli`: readers, sink and their options. Never runs an export."""
