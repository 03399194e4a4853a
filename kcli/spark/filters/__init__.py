"""TODO-ROOM kcli.spark.filters"""
