"""Which offsets of which partitions to read. Asks sources, and reads no record.

`selection` chooses partitions, `resolve` makes one interval per partition of the offsets and times asked for,
`division` cuts intervals by `minPartitions` and `maxRecordsPerPartition`, and `trigger_limits` is the
arithmetic of triggers. Names, precedence and refusals are those of Spark's own Kafka source.
"""
