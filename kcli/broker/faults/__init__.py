"""Faults on purpose in requests, links, followers, disks and transactions; without one nothing here runs."""
