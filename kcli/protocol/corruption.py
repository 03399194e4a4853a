"""The errors of corrupt and of oversized records, and the limits of what a reader accepts."""

from __future__ import annotations

from typing import TypeAlias

from kcli.errors import KcliError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""The default limit of what one batch may decompress to.

It is far above the default batch of 1 MiB and far below what a hostile kilobyte can expand to.
"""

BYTES_PER_RECORD = 128
"""The least that a record counts for where reading is limited: seven bytes may become an object."""


class CorruptRecord(KcliError):
    """A corrupt record, batch or message set: wrong checksum, size, count, codec or magic."""


class TooMuchData(CorruptRecord):
    """More bytes or records than the caller accepts, corrupt or not."""

    @classmethod
    def above(cls, max_size: int) -> TooMuchData:
        """Return the error of every codec for a batch that decompresses to more than `max_size` bytes."""
        return cls(f"a compressed batch holds more than {max_size} bytes")
