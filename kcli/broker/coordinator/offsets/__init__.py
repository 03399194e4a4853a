"""The committed offsets of all groups: commit, fetch, delete, expire. Pure: it never does I/O."""
