"""Whole numbers on command lines: what does not fit the protocol's fields is refused before it gets there.

They are decimal digits: Python's own `int` also takes `1_0`, for ten, and the digits of other scripts.
"""

from __future__ import annotations

LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1

MOST_DIGITS = 40
"""More than any field has, zeros in front included; Python itself refuses some thousands."""


def whole_number(text: str, most: int) -> int | None:
    """Return the number that decimal digits are, None for any other text and for one above `most`."""
    number = None if text.startswith(("+", "-")) else signed_number(text)
    return number if number is not None and number <= most else None


def signed_number(text: str) -> int | None:
    """Return the number that decimal digits are, behind a sign or without one, None for any other text."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS else None
