"""QuotaMatch: how a filter of quotas names what it seeks (KIP-546)."""

from __future__ import annotations

from enum import IntEnum


class QuotaMatch(IntEnum):
    """One part of an entity: of this name, of the default, or of any name and the default."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2
