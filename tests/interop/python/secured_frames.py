"""Reads a topic as a frame and writes it to another one, with client properties that hold secrets.

secured_frames.py PROPERTIES FROM TO EVENTS  prints what Spark tells of itself: configuration and plans.
"""

from __future__ import annotations

import json
import sys
import urllib.request

from pyspark.sql import SparkSession

import kcli.spark

properties, source, target, events = sys.argv[1:]
with open(properties, encoding="utf-8") as file:
    options = {f"kafka.{name}": value for name, value in json.load(file).items()}
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.dir", events)
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.port", "0")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
kcli.spark.register(spark)
frame = spark.read.format("kcli").options(**options, subscribe=source).load()
frame.select("key", "value").write.format("kcli").mode("append").options(**options, topic=target).save()
print("rows", frame.count())
print(frame._jdf.queryExecution().toString())
print(spark.sparkContext.getConf().getAll())
base = spark.sparkContext.uiWebUrl
identity = spark.sparkContext.applicationId
for page in ("/environment/", "/SQL/", f"/api/v1/applications/{identity}/sql?details=true"):
    with urllib.request.urlopen(f"{base}{page}", timeout=60) as answer:
        print(answer.read().decode())
spark.stop()
