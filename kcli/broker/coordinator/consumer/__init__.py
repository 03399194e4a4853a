"""Consumer groups (KIP-848), whose partitions the broker assigns. Pure: it never does I/O."""
