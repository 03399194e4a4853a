"""Where an export writes its files: a local directory or an object store."""
