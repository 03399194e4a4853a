"""Fetch: its handler, the parked fetch, the response on the wire, and the short path for one partition."""
