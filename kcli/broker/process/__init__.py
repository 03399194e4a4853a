"""One process: its nodes, their start and end, and the operations of commands; it answers no Kafka request."""
