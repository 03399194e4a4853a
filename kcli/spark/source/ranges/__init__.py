"""Which offsets of which partitions are read: options, selection, resolving, cutting, limiting, filters.

`options.source_options` reads what a user of the data source wrote, `resolve.resolve` turns it into one
interval per partition, `division.divide` cuts intervals as `minPartitions` and `maxRecordsPerPartition` say,
`streaming` holds the arithmetic of triggers, and `pushdown` narrows by what a filter says of topic,
partition, offset and timestamp. Names, precedence and refusals are those of Spark's own Kafka source.
"""
