"""Filters: the conditions of `--where`, as Arrow expressions and as bounds. Evaluates no SQL."""
