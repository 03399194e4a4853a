"""The oldest form of a committed offset, type 0 of `__consumer_offsets`: only read, and only in version 0.

Its key has the fields of `OffsetCommitKey`. Kafka has classes of its own for it, and reads no other version.
"""

from __future__ import annotations

from kcli.protocol.schema import i64, record, string


@record(type=0, versions="0")
class LegacyOffsetCommitValue:
    """Where a group goes on."""

    offset: i64
    metadata: string
    commit_timestamp: i64
