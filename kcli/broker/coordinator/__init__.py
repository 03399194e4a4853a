"""Coordinators: pure shards that take events and return effects, and the runtime that performs them."""
