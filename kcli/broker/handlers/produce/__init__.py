"""Produce: its handler, request and response on the wire, and the short path for one batch."""
