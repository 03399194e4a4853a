"""Benchmarks, run by hand: kcli and its peers in the same run. See `python -m tests.benchmarks --help`."""
