"""Repaired copies of damaged partitions and segments; it never writes to the original."""
