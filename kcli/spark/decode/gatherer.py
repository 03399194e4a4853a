"""Gatherer: walks the entries of one partition in buffers, and yields the rows of a range of offsets.

    gatherer = Gatherer(topic, partition, start, end, reading, counters, aborted)
    at = 0
    while not gatherer.is_done:
        ...                                          # fill the buffer from `at` on
        try:
            yield from gatherer.rows(buffer, at, stop, position=...)
            at = gatherer.stopped_at                 # here is an incomplete entry, `gatherer.needed` long
        except CorruptBatch as damage:
            gatherer.skip_damaged(damage, skipped)   # raises it again, or counts it
            at = ...                                 # where the next entry begins

`rows` decodes before it ends: the buffer may be filled again afterwards, not meanwhile.

An entry is good if its size fits, its magic is known, its counts are possible and its checksum is right. The
checksum does not cover the offset: it must be the expected one, or the next entry must confirm that there is
a hole. Otherwise `CorruptBatch` is raised, because only the caller knows where to go on. If the checksum is
right but the records contradict the header, the gatherer leaves the batch out and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import HEADER_SIZE, MAGIC, MAX_OFFSET
from kcli.spark.decode.arrow_columns import assemble
from kcli.spark.decode.batch_group import Group, SoundRun, sound_run
from kcli.spark.decode.chunk import CorruptRecords
from kcli.spark.decode.decoders import decode
from kcli.spark.decode.decompression import DecompressedRecords
from kcli.spark.decode.entry import CorruptBatch, claimed_offsets, entry_at, first_offset, offset_at, size_at
from kcli.spark.split import OffsetInterval, OnCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.batch_header import BatchHead
    from kcli.spark.decode.chunk import Chunk
    from kcli.spark.split import AbortedTransaction, ReadCounters, Reading


class DamageReport:
    """The damage met while offsets `start..end - 1` of one partition are read.

    Damage before the range, where a reader begins at an earlier entry, counts only if the next good entry
    begins behind `start`.
    """

    def __init__(
        self, topic: str, partition: int, start: int, end: int, on_corrupt: OnCorrupt, counters: ReadCounters
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.on_corrupt = on_corrupt
        self.counters = counters
        self._lost_from = start
        self.is_searching = False
        """Whether bytes were skipped and no good entry has followed yet."""
        self._undecided: list[tuple[CorruptBatch, int, bytes]] = []

    def add(self, damage: CorruptBatch, skipped_bytes: int, raw: Buffer, next_offset: int) -> None:
        """Record skipped bytes behind the offsets below `next_offset`, or raise the damage."""
        if not self.is_searching:
            self.is_searching = True
            self._lost_from = max(next_offset, self.start)
        if next_offset >= self.start:
            self._count(damage, skipped_bytes, raw)
        else:
            self._undecided.append((damage, skipped_bytes, bytes(raw)))

    def found(self, first: int) -> None:
        """Record that a good entry begins at offset `first`: offsets up to it are missing."""
        if not self.is_searching:
            return
        lost = OffsetInterval(self._lost_from, min(first, self.end))
        self.is_searching = False
        if lost.start < lost.end:
            for damage, skipped_bytes, raw in self._undecided:
                self._count(damage, skipped_bytes, raw)
            self.counters.missing.append(lost)
        self._undecided.clear()

    def leave_out(self, damage: CorruptBatch, raw: Buffer) -> None:
        """Record a whole batch with a good header that cannot be read, or raise the damage."""
        self._count(damage, damage.size, raw)
        lost = OffsetInterval(max(damage.first, self.start), min(damage.last + 1, self.end))
        if lost.start < lost.end:
            self.counters.missing.append(lost)

    def _count(self, damage: CorruptBatch, skipped_bytes: int, raw: Buffer) -> None:
        if self.on_corrupt is OnCorrupt.FAIL:
            raise damage
        self.counters.corrupt_batches += 1
        self.counters.corrupt_bytes += skipped_bytes
        if self.on_corrupt is OnCorrupt.DEAD_LETTER and self.counters.on_damaged_batch is not None:
            self.counters.on_damaged_batch(
                self.topic, self.partition, damage.position, bytes(raw), damage.reason
            )


CHUNK_BYTES = 4 * 1024 * 1024
"""How many bytes of records are decoded in one step, besides the rest of the last batch."""

MAX_CHUNK_BYTES = 2**31 - 2**20
"""The largest that the offsets of an Arrow column can address."""


class Gatherer:
    """Yields the rows with offsets `start` (included) to `end` (excluded) of one partition."""

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        reading: Reading,
        counters: ReadCounters,
        aborted: Iterable[AbortedTransaction] = (),
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.reading = reading
        self.counters = counters
        self.where = f"{topic}-{partition}"
        """The place of the buffers in errors; a reader of files sets the path."""
        self.next_offset = -1
        """The offset behind the last good entry, -1 before the first; a caller that knows it sets it."""
        self.stopped_at = 0
        """Where in the buffer `rows` ended."""
        self.needed = HEADER_SIZE
        """How many bytes the entry there needs, if that is known."""
        self.find_aborted: Callable[[int], Iterable[AbortedTransaction]] | None = None
        """Called once under read_committed, at the first transactional batch, for more aborted transactions
        from its offset on."""
        self._damage = DamageReport(topic, partition, start, end, reading.on_corrupt, counters)
        self._decompressed = DecompressedRecords()
        self._position = 0
        self._entry_from = -1
        self._max_bytes = min(reading.max_batch_bytes, MAX_CHUNK_BYTES)
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        self.know_aborted(aborted)

    @property
    def is_done(self) -> bool:
        return self.next_offset >= self.end

    @property
    def is_searching(self) -> bool:
        """Whether damage was met and no good entry has followed yet."""
        return self._damage.is_searching

    def know_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace the known aborted transactions; brokers list them with every fetch."""
        self._aborted = {}
        self._add_aborted(aborted)

    def _add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        if self.reading.read_committed:
            for one in aborted:
                self._aborted.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))

    def rows(
        self,
        buffer: Buffer,
        begin: int = 0,
        stop: int | None = None,
        *,
        position: int = 0,
        is_end: bool = False,
        limit_offset: int = MAX_OFFSET,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the whole entries in `buffer[begin:stop]`; an entry begins at `begin`.

        `position` is the place of `buffer[0]` in the file; `is_end` says that nothing follows `stop`;
        `limit_offset` is the base offset of the next segment. Raises `CorruptBatch`, after the rows before
        it.
        """
        view = memoryview(buffer)
        stop = len(view) if stop is None else stop
        at, group = begin, Group(view, self._decompressed)
        self._position = position
        damage: CorruptBatch | None = None
        while not self.is_done:
            try:
                run = self._run(view, at, min(stop, at + CHUNK_BYTES), limit_offset)
                if run is None:
                    run = self._single(view, at, stop, is_end=is_end, limit_offset=limit_offset)
            except CorruptRecord as error:
                damage = self._corrupt(view, at, stop, error.message)
                break
            if run is None:
                break
            at = run.end
            group = yield from self._put(group, run)
        yield from self._decoded(group)
        self.counters.bytes_read += at - begin
        self.stopped_at = at
        if damage is not None:
            raise damage

    def skip_damaged(self, damage: CorruptBatch, skipped_bytes: int, raw: Buffer = b"") -> None:
        """Record that the reader skips that many damaged bytes; raise the damage if it is an error.

        `raw` are the skipped bytes, or as many of them as are to be kept.
        """
        self._damage.add(damage, skipped_bytes, raw, self.next_offset)

    def finish(self) -> None:
        """Record that nothing follows: what was skipped last extends to the end of the range."""
        self._damage.found(self.end)

    def _run(self, view: memoryview, at: int, stop: int, limit_offset: int) -> SoundRun | None:
        """Return a run of sound batches, None if the first entry is not one."""
        if self.next_offset < 0:
            return None
        run = sound_run(view, at, stop, next_offset=self.next_offset, end=self.end, limit_offset=limit_offset)
        if not run.entries:
            return None
        self._damage.found(run.entries[0].base_offset)
        self.next_offset = run.entries[-1].next_offset
        self._mark(run.entries[-1])
        return run

    def _single(
        self, view: memoryview, at: int, stop: int, *, is_end: bool, limit_offset: int
    ) -> SoundRun | None:
        """Return the entry at a place if all of it is there; raises `CorruptRecord`."""
        size = size_at(view, at, stop)
        if not size or at + size > stop:
            self.needed = size or HEADER_SIZE
            return None
        entry = entry_at(view, at, size)
        first, last = first_offset(entry), entry.last_offset
        if last >= limit_offset:
            raise CorruptRecord(f"offset {last} belongs to the next segment, from {limit_offset} on")
        if first != self.next_offset:
            if last < self.next_offset or -1 < first < self.next_offset:
                raise CorruptRecord(f"offset {first} after {self.next_offset - 1}")
            following = offset_at(view, at + size, stop)
            if following is None and not is_end:
                self.needed = size + HEADER_SIZE
                return None
            if following is not None and -1 < following <= last:
                raise CorruptRecord(f"offset {last} before {following}, which follows it")
        self._entry_from, self.next_offset = self.next_offset, last + 1
        if first >= 0:
            self._damage.found(first)
        if entry.magic == MAGIC and first < self.end:
            self._mark(entry)
        return SoundRun([entry], is_plain=False, is_ordinary=False)

    def _mark(self, entry: BatchHead) -> None:
        """Record the leader epoch of a batch, so that a later run can tell whether the log still has it."""
        epoch = entry.partition_leader_epoch
        if epoch >= 0:
            self.counters.epoch_ends[epoch] = entry.last_offset

    def _put(self, group: Group, run: SoundRun) -> Generator[pa.RecordBatch, None, Group]:
        """Add the wanted entries to the group; yield the rows of full groups, return the last one."""
        if run.is_plain and run.entries[0].last_offset >= self.start:
            group = yield from self._with_room(group, run.entries[0])
            group.add_plain(run.entries)
            return group
        entries = run.entries
        if not run.is_ordinary or entries[0].last_offset < self.start:
            entries = [entry for entry in entries if self._is_wanted(entry)]
        taken = 0
        while taken < len(entries):
            group = yield from self._with_room(group, entries[taken])
            taken = self._take(group, entries, taken)
        return group

    def _with_room(self, group: Group, entry: BatchHead) -> Generator[pa.RecordBatch, None, Group]:
        """Return the group if it has room for the entry, else a new one, after the rows of the group."""
        if group.size_bytes < CHUNK_BYTES and group.takes(entry):
            return group
        yield from self._decoded(group)
        return Group(group.view, self._decompressed)

    def _is_wanted(self, entry: BatchHead) -> bool:
        first = first_offset(entry)
        if entry.last_offset < self.start or first >= self.end or not entry.count or entry.is_control:
            return False
        if not self.reading.read_committed or not entry.is_transactional:
            return True
        if self.find_aborted is not None:
            find, self.find_aborted = self.find_aborted, None
            self._add_aborted(find(first))
        transactions = self._aborted.get(entry.producer_id, ())
        return not any(start <= first <= end for start, end in transactions)

    def _take(self, group: Group, entries: Sequence[BatchHead], at: int) -> int:
        """Add entries from index `at` on to the group until it is full; return the index of the next.

        An entry whose records do not decompress is left out.
        """
        if entries[at].magic != MAGIC:
            self._take_legacy(group, entries[at])
            return at + 1
        held = len(group.entries)
        try:
            group.fill(entries, at, CHUNK_BYTES, self._max_bytes)
        except CorruptRecord as error:
            at += len(group.entries) - held
            self._leave_out(group, entries[at], error.message)
            return at + 1
        return at + len(group.entries) - held

    def _take_legacy(self, group: Group, entry: BatchHead) -> None:
        try:
            # A compressed older entry does not tell its first offset: it may be one that was passed.
            first = group.add_legacy(entry, max(self.start, self._entry_from), self.end, self._max_bytes)
        except CorruptRecord as error:
            self._leave_out(group, entry, error.message)
        else:
            self._damage.found(first)

    def _decoded(self, group: Group) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group, without batches that cannot be read."""
        batches: Iterable[pa.RecordBatch]
        if group.legacy is None:
            batches = self._readable_parts(group, group.chunk(self.start, self.end), 0, len(group.entries))
        else:
            columns = self.reading.columns
            fields = group.legacy.fields(columns)
            batches = (assemble(fields, self.topic, self.partition, columns, start=self.start, end=self.end),)
        for batch in batches:
            if batch.num_rows:
                self.counters.rows += batch.num_rows
                yield batch

    def _readable_parts(self, group: Group, chunk: Chunk, first: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of batches `first` up to `stop`, without those that cannot be read."""
        while first < stop:
            try:
                batch = decode(chunk.part(first, stop), self.topic, self.partition, self.reading.columns)
            except CorruptRecords as damage:
                bad = first + damage.batch
                # There may be other bad ones before it: a decoder names the one that it met first.
                yield from self._readable_parts(group, chunk, first, bad)
                self._leave_out(group, group.entries[bad], damage.reason)
                first = bad + 1
            else:
                yield batch
                return

    def _leave_out(self, group: Group, entry: BatchHead, reason: str) -> None:
        position = self._position + entry.position
        # A compressed older entry holds its first offset inside.
        first = first_offset(entry)
        first = first if first >= 0 else max(self._entry_from, self.start)
        damage = CorruptBatch(
            self.where, position, reason, size=entry.size_in_bytes, first=first, last=entry.last_offset
        )
        self._damage.leave_out(damage, group.view[entry.position : entry.end])

    def _corrupt(self, view: memoryview, at: int, stop: int, reason: str) -> CorruptBatch:
        try:
            size = size_at(view, at, stop)
        except CorruptRecord:
            size = 0
        first, last = claimed_offsets(view, at, stop)
        return CorruptBatch(self.where, self._position + at, reason, size=size, first=first, last=last)
