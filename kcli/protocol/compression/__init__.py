"""Codecs of record data. Never produces more bytes than its caller allows."""
