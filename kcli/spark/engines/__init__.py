"""TODO-ROOM kcli.spark.engines"""
