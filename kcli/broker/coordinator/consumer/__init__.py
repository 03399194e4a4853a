"""Consumer groups (KIP-848), whose partitions the broker assigns. Pure: events in, effects out."""
