"""TODO-ROOM kcli.spark.export.writing"""
