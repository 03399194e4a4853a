"""The producers of a partition: state and snapshots; never reads a segment itself."""
