"""Certificates, private keys, and the stores that hold them: reads and makes them, knows no connection."""
