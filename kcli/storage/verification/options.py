"""What a verification looks at."""

from __future__ import annotations

from typing import NamedTuple


class VerificationOptions(NamedTuple):
    """`deep` looks at each record; `indexes_only` tells of indexes alone; `sanity_only` reads no log.

    `base_offset` limits it to one segment. An offset index may point at batches of up to `max_message_size`.
    """

    deep: bool = False
    indexes_only: bool = False
    sanity_only: bool = False
    base_offset: int | None = None
    max_message_size: int | None = None
