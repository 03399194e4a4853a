"""Compares kcli with Apache Kafka 4.3.1: both get the same random requests, and their answers must be equal.

`python -m tests.differential` starts both brokers and runs it; `tests/README.md` tells how.
"""
