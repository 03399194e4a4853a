"""Kafka's 128-bit ids: 16 raw bytes in the program and on the wire, 22 characters in text.

The text form is URL-safe base64 without padding (Kafka class `Uuid`). Raw bytes rather than
`uuid.UUID` objects, because a topic id is looked up once per partition of every fetch.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

ZERO_UUID = bytes(16)
"""Means no id."""

_RESERVED = frozenset({ZERO_UUID, (1).to_bytes(16, "big")})


def random_uuid() -> bytes:
    """Return a random (version 4) id whose text form does not start with a dash.

    A leading dash would read as an option on a command line (as in Kafka's `Uuid.randomUuid`).
    """
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        candidate = bytes(raw)
        if candidate not in _RESERVED and not uuid_to_text(candidate).startswith("-"):
            return candidate


def uuid_to_text(value: bytes) -> str:
    """Return the 22-character text form of a 16-byte id."""
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of a text form; raise `ValueError` for any other text."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"not a 22-character id: {text!r}") from error
    if len(raw) != 16:
        raise ValueError(f"not a 22-character id: {text!r}")
    return raw
