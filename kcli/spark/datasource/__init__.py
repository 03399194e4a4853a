"""TODO-ROOM kcli.spark.datasource"""
