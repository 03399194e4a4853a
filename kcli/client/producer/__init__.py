"""The producer: from a record to the delivery of its batch."""
