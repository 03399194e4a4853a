"""The index files of a segment; never reads the log that they point into."""
