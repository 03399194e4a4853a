"""Faults on purpose: requests, links, followers and disks that fail as they would in production."""
