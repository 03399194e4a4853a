"""Faults on purpose in requests, links, followers and disks; without one nothing here runs."""
