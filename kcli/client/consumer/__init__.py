"""The consumer that applications use, above fetching and groups."""
