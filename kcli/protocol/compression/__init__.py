"""Codecs of record data; never produces more bytes than the caller allows."""
