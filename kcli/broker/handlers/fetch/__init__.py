"""Fetch: its handler, the fetch that waits, its writer, and the short path for one partition."""
