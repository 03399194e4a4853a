"""One node, from open to close, with its heartbeats and housekeeping; it never looks at other nodes."""
