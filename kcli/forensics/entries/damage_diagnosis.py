"""DamageDiagnosis: finds which field is damaged when a check has failed, and where the file goes on.

The checksum does not cover size, offset and magic, so the check that fails first need not be about the
damaged field. The position of the next valid entry gives the true size of the damaged one; if the checksum
matches with that size, or with another magic, then only this field is damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.damage import TRUNCATIONS, Damage, DamageKind, FieldBytes
from kcli.forensics.entries.entry_head import (
    HEADER_SIZES,
    TORN_BYTES,
    HeadProblem,
    crc_of_head,
    fields_of,
    header_problem,
)
from kcli.forensics.entries.entry_search import EntrySearch
from kcli.protocol.records.batch_header import LOG_OVERHEAD, MAGIC_POSITION, MIN_LENGTHS

if TYPE_CHECKING:
    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.protocol.records.batch_header import BatchHead

_OWN_ZEROS = 16
_LEAST_TORN = 16
_LEAST_TORN_AT_END = 512
_LEAST_ZERO_TAIL = 64


class DamageDiagnosis:
    """The diagnosis of one file, whose offsets lie in [`lowest`, `highest`]."""

    __slots__ = ("_file", "_highest", "_lowest", "search")

    def __init__(self, file: SegmentFile, lowest: int, highest: int) -> None:
        self._file = file
        self._lowest = lowest
        self._highest = highest
        self.search = EntrySearch(file, highest)

    def no_entry(self, problem: HeadProblem, *, head: bytes, position: int, expected: int) -> Damage:
        """Return the damage at a place where no entry begins; all its bytes are skipped. Raises `OSError`."""
        file = self._file
        if len(head) <= TORN_BYTES:
            return self._skipping(problem, head, position, None)
        if not any(head[: MAGIC_POSITION + 1]):
            count = file.zeros_from(position)
            if position + count >= file.end:
                message = f"{count} bytes of zeros up to the end"
                return Damage(DamageKind.ZERO_TAIL, position, count, message, count, found=count)
            # The offset and the size that follow begin with zeros themselves.
            start = max(position + count - MAGIC_POSITION, position + 1)
            return self._zeros(position, count, self.search.next_entry(start, expected))
        following = self.search.next_entry(position + 1, expected)
        mended = self._mended(head, position, following)
        return mended or self._skipping(problem, head, position, following)

    def bad_crc(self, head: bytes, *, position: int, size: int, expected: int) -> Damage:
        """Return the damage of an entry whose checksum does not match.

        No bytes are skipped if the file goes on where the header says that the entry ends. Raises `OSError`.
        """
        behind = position + size
        if behind + self._file.zeros_from(behind) >= self._file.end:
            last = self._mended(head, position, None) or self._torn(head, position, size)
            if last is not None:
                return last._replace(skipped_bytes=0) if last.size_bytes == size else last
        if self.search.leads_on(behind, _offset(head)):
            inside = self.search.next_entry(position + 1, expected, behind)
            hidden = self._mended(head, position, inside) if inside is not None else None
            return hidden or self._other_magic(head, position, size) or self._checksum(head, position, size)
        following = self.search.next_entry(position + 1, expected)
        mended = self._mended(head, position, following)
        return mended or self._leading_nowhere(head, position, size, following)

    def _leading_nowhere(self, head: bytes, position: int, size: int, following: BatchHead | None) -> Damage:
        """Return the damage of an entry whose size leads nowhere; it reaches to the next valid entry."""
        boundary = self._file.end if following is None else following.position
        skipped = boundary - position
        damage = self._checksum(head, position, size)._replace(
            size_bytes=skipped, skipped_bytes=skipped, next_position=None if following is None else boundary
        )
        if following is None or skipped >= size:
            return damage
        return damage._replace(
            kind=DamageKind.TRUNCATED_BATCH,
            field=_field(head, position, "size"),
            expected=size,
            found=skipped,
            message=f"the next batch begins {skipped} bytes into this one of {size}",
        )

    def of_header(self, problem: HeadProblem, *, head: bytes, position: int, size: int) -> Damage:
        """Return the contradiction in the header of an entry whose checksum matches."""
        message = f"{problem.message}, though the checksum matches"
        damage = _damage(problem.kind, head, position, size, message, problem.field)
        return damage._replace(expected=problem.expected, found=problem.found, next_position=position + size)

    def of_offset(self, head: bytes, *, position: int, size: int, last_offset: int, expected: int) -> Damage:
        """Return what is wrong with the offset of an otherwise valid entry."""
        offset = _offset(head)
        kind, wanted, message = DamageKind.BAD_OFFSET, f"{expected}", ""
        if last_offset > self._highest:
            wanted = f"up to {self._highest}"
            message = f"offset {last_offset} is beyond {self._highest}, the last that fits the segment"
        elif offset < self._lowest:
            wanted = f"{self._lowest} or more"
            message = f"offset {offset} is below {self._lowest}, where the segment begins"
        elif expected >= 0 and offset < expected:
            kind, wanted = DamageKind.OFFSET_GOING_BACK, f"{expected} or more"
            message = f"offset {offset} comes after offset {expected - 1}"
        elif offset != expected:
            message = f"offset {offset} should be {expected}: the next batch goes on from there"
        damage = _damage(kind, head, position, size, message, "offset")
        return damage._replace(expected=wanted, found=offset, next_position=position + size)

    def _mended(self, head: bytes, position: int, following: BatchHead | None) -> Damage | None:
        """Return damage of the size or the magic, if the checksum matches with another one."""
        file = self._file
        if len(head) < HEADER_SIZES[1]:
            return None
        length = int.from_bytes(head[8:12], "big", signed=True)
        found = head[MAGIC_POSITION]
        ends = [following.position] if following is not None else self._possible_ends(position)
        sizes = {end - position for end in ends} | {LOG_OVERHEAD + length}
        for size in sorted(size for size in sizes if HEADER_SIZES[1] <= size <= file.end - position):
            for magic in (2, 1, 0):
                if size < LOG_OVERHEAD + MIN_LENGTHS[magic]:
                    continue
                if size == LOG_OVERHEAD + length and magic == found:
                    continue
                if file.entry_crc(position, size, magic) == crc_of_head(head, magic):
                    return _mended_damage(head, position, size, magic, following)
        return None

    def _possible_ends(self, position: int) -> list[int]:
        """Return where the last entry may end: at the end of the file, or where the zeros there begin."""
        end = self._file.end
        zeros = self._file.zeros_before(end, position)
        # The last bytes of an entry are often zeros as well.
        return [end, *(end - zeros + own for own in range(min(zeros, _OWN_ZEROS)))]

    def _other_magic(self, head: bytes, position: int, size: int) -> Damage | None:
        for magic in (2, 1, 0):
            if magic == head[MAGIC_POSITION] or size < LOG_OVERHEAD + MIN_LENGTHS[magic]:
                continue
            if self._file.entry_crc(position, size, magic) == crc_of_head(head, magic):
                return _mended_damage(head, position, size, magic, None)._replace(skipped_bytes=0)
        return None

    def _torn(self, head: bytes, position: int, size: int) -> Damage | None:
        """Return the damage of a last entry of which only the beginning was written, before zeros."""
        end = position + size
        zeros = self._file.zeros_before(end, position)
        if zeros < (_LEAST_TORN if end < self._file.end else _LEAST_TORN_AT_END):
            return None
        message = f"{size - zeros} bytes of a batch of {size} were written, zeros follow"
        damage = _damage(DamageKind.TRUNCATED_BATCH, head, position, size, message)
        return damage._replace(expected=size, found=size - zeros)

    def _skipping(
        self, problem: HeadProblem, head: bytes, position: int, following: BatchHead | None
    ) -> Damage:
        """Return the damage of bytes that belong to no entry, up to the next one or to the end."""
        boundary = self._file.end if following is None else following.position
        kind, found, message = problem.kind, problem.found, problem.message
        if following is None:
            zeros = self._file.zeros_before(boundary, position)
            if zeros >= _LEAST_ZERO_TAIL:
                boundary -= zeros
        if kind not in TRUNCATIONS:
            # Were only the size or the magic wrong, `_mended` would have found it.
            kind = DamageKind.GARBAGE_TAIL if following is None else DamageKind.GARBAGE
        elif following is not None:
            kind, found = DamageKind.TRUNCATED_BATCH, boundary - position
            message = f"the next batch begins {found} bytes into one that claims {problem.expected}"
        skipped, next_position = boundary - position, None if following is None else following.position
        damage = _damage(kind, head, position, skipped, message, problem.field)
        damage = damage._replace(skipped_bytes=skipped, next_position=next_position)
        return damage._replace(expected=problem.expected, found=found)

    def _zeros(self, position: int, count: int, following: BatchHead | None) -> Damage:
        boundary = self._file.end if following is None else following.position
        skipped, next_position = boundary - position, None if following is None else boundary
        message = f"{count} bytes of zeros where a batch should begin"
        damage = Damage(DamageKind.ZEROS, position, skipped, message, skipped)
        return damage._replace(found=count, next_position=next_position)

    def _checksum(self, head: bytes, position: int, size: int) -> Damage:
        magic = head[MAGIC_POSITION]
        stored = crc_of_head(head, magic)
        computed = self._file.entry_crc(position, size, magic) or 0
        message = f"checksum {stored:#010x} in the header, {computed:#010x} of the bytes"
        if sum(1 for byte in (stored ^ computed).to_bytes(4, "big") if byte) == 1:
            message += ": one byte differs, so it may be the checksum that is damaged"
        contradiction = header_problem(head) if len(head) >= HEADER_SIZES[magic] else None
        if contradiction is not None:
            message += f"; {contradiction.message}"
        damage = _damage(DamageKind.BAD_CRC, head, position, size, message, "crc")
        next_position = position + size if position + size < self._file.end else None
        return damage._replace(expected=stored, found=computed, next_position=next_position)


def _mended_damage(head: bytes, position: int, size: int, magic: int, following: BatchHead | None) -> Damage:
    """Return the damage of an entry whose checksum matches with that size and magic."""
    name, expected, found = "size", size - LOG_OVERHEAD, int.from_bytes(head[8:12], "big", signed=True)
    if magic != head[MAGIC_POSITION]:
        name, expected, found = "magic", magic, head[MAGIC_POSITION]
    kind = DamageKind.BAD_MAGIC if name == "magic" else DamageKind.BAD_SIZE
    message = f"{name} {found} should be {expected}: with it the checksum matches"
    next_position = None if following is None else following.position
    damage = _damage(kind, head, position, size, message, name)
    return damage._replace(skipped_bytes=size, expected=expected, found=found, next_position=next_position)


def _damage(
    kind: DamageKind, head: bytes, position: int, size: int, message: str, field: str | None = None
) -> Damage:
    """Return damage with the offset and the field of that name in the head."""
    looked_at = None if field is None else _field(head, position, field)
    return Damage(kind, position, size, message, offset=_offset(head), field=looked_at)


def _offset(head: bytes) -> int:
    return int.from_bytes(head[:8], "big", signed=True)


def _field(head: bytes, position: int, name: str) -> FieldBytes | None:
    """Return the field of that name, None if the file ends before it."""
    at, size = fields_of(head[MAGIC_POSITION] if len(head) > MAGIC_POSITION else 2)[name]
    raw = head[at : at + size]
    return FieldBytes(name, position + at, raw) if raw else None
