"""Bytes that cannot be what they claim to be, and how many bytes a reader is ready to take."""

from __future__ import annotations

from typing import TypeAlias

from kcli.errors import KcliError

Buffer: TypeAlias = bytes | bytearray | memoryview

# What one batch may decompress to unless the caller says otherwise: far above the 1 MiB that a batch is by
# default, far below what a hostile kilobyte of zeros can expand to.
MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

BYTES_PER_RECORD = 128
"""What a record counts for, at least, where reading is limited: it may be seven bytes, and is an object."""


class CorruptRecord(KcliError):
    """Bytes that are no record, batch or message set: a bad checksum, size, count, codec or magic."""


class TooMuchData(CorruptRecord):
    """More bytes, or more records, than the caller is ready to read: perhaps good, perhaps a bomb."""

    @classmethod
    def above(cls, max_size: int) -> TooMuchData:
        """Return the error of every codec for a batch that decompresses to more than `max_size` bytes."""
        return cls(f"a compressed batch holds more than {max_size} bytes")
