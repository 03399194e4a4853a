"""Engines run the tasks of a plan: in local processes, on Spark, or through Spark SQL. They never commit."""
