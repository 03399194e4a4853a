"""A consumer's part in its group, in the classic and in the consumer protocol (KIP-848)."""
