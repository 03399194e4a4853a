"""TODO-ROOM kcli.spark.export.log"""
