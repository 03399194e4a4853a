"""Sources of records: brokers and log directories, and the ranges of offsets to read. Never writes."""
