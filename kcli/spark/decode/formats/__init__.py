"""Formats of keys and values: bytes become text, numbers, JSON or Avro. Opens no file."""
