"""Coordinators: pure shards that take events and give effects, and the runtime that performs these."""
