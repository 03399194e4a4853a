"""Segments to scan, and all that a scan of them finds."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings

from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.scanned_entry import ScannedEntry
from kcli.forensics.entries.segment_scan import scan
from kcli.protocol.compression.codecs import Codec
from tests.forensics.segment_makers import LEGACY_CODECS, Shape, make_entries
from tests.support.log_files import write_at_rest

K = DamageKind
ANY_DIRECTORY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
MIXED = make_entries(
    [
        *(Shape(0, codec) for codec in LEGACY_CODECS),
        *(Shape(1, codec) for codec in LEGACY_CODECS),
        *(Shape(2, codec) for codec in Codec),
        Shape(2, records=1),
    ]
)
BATCHES = make_entries([Shape(records=2 + number % 3, value_bytes=5 * number) for number in range(6)])
OLDER = make_entries([Shape(1, value_bytes=3 * number) for number in range(6)])


class Found(list[ScannedEntry | Damage]):
    """All that a scan yields, its sum and its order checked."""

    def __init__(self, path: Path, data: bytes, **options: object) -> None:
        write_at_rest(path, data)
        super().__init__(scan(str(path), **options))  # type: ignore[arg-type]
        position = 0
        for item in self:
            if isinstance(item, ScannedEntry):
                assert item.position == position
                position = item.end
            elif item.skipped_bytes:
                assert item.position == position
                assert item.skipped_bytes > 0
                position += item.skipped_bytes
            else:
                assert item.position + item.size_bytes == position
        assert position == len(data)

    @property
    def damages(self) -> list[Damage]:
        return [item for item in self if isinstance(item, Damage)]

    @property
    def kinds(self) -> list[tuple[DamageKind, int]]:
        return [(damage.kind, damage.position) for damage in self.damages]

    @property
    def valid(self) -> list[int]:
        return [item.position for item in self if isinstance(item, ScannedEntry) and item.is_valid]


def joined(*parts: bytes) -> bytes:
    return b"".join(parts)


def patched(entries: list[bytes], number: int, at: int, data: bytes) -> bytes:
    """The segment with some bytes of one entry replaced."""
    entry = entries[number]
    return joined(*entries[:number], entry[:at], data, entry[at + len(data) :], *entries[number + 1 :])
