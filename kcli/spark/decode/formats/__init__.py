"""TODO-ROOM kcli.spark.decode.formats"""
