"""TODO-ROOM kcli.spark.source"""
