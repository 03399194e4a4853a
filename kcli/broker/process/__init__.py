"""One process: its nodes, their start and end, and the operations of commands. It answers no request."""
