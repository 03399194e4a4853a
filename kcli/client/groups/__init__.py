"""A consumer as a member of its group, in the classic and in the consumer protocol (KIP-848)."""
