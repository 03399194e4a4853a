"""Whole numbers on command lines: what does not fit the protocol's fields is refused before it gets there."""

from __future__ import annotations

LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1

MOST_DIGITS = 40
"""More than any field has, zeros in front included; Python itself refuses some thousands."""


def whole_number(text: str, most: int) -> int | None:
    """Return the number that decimal digits are, None for any other text and for one above `most`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        return None
    number = int(text)
    return number if number <= most else None
