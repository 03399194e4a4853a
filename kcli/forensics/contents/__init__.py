"""Which files and replicas log directories hold, and the batches in them; it judges nothing."""
