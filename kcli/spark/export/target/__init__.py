"""The target of an export: a local directory or an object store. Knows paths and bytes, not plans."""
