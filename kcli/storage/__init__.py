"""Apache Kafka's log directories: files, formats, recovery. Synchronous, and unaware of the network."""
