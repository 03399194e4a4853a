"""What `spark-import` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.commands.amounts import duration_text
from kcli.commands.output import Table
from kcli.commands.words import counted
from kcli.errors import KcliError


class ImportedPartition(NamedTuple):
    """One partition: rows in the export, those that were in the topic before, those that came now."""

    partition: int
    rows: int
    before: int
    imported: int


class Imported(NamedTuple):
    """The result of an import, or of one that is only tried: then nothing came."""

    operation: str
    source: str
    source_topic: str
    topic: str
    partitions: Sequence[ImportedPartition]
    seconds: float
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a line for each partition, and one for all."""
        for part in self.partitions:
            already = f", {part.before:,} there before" if part.before else ""
            done = "to import" if self.operation == "dry-run" else "imported"
            count = part.rows - part.before if self.operation == "dry-run" else part.imported
            yield f"{self.topic}-{part.partition}: {counted(count, 'record')} {done}{already}"
        yield self.total()

    def total(self) -> str:
        """Return what was done, or would be, in one line."""
        left = sum(part.rows - part.before for part in self.partitions)
        imported = sum(part.imported for part in self.partitions)
        if not left:
            return f"nothing new for topic {self.topic}"
        if self.operation == "dry-run":
            return f"dry run: {counted(left, 'record')} of {self.source_topic} to topic {self.topic}"
        rate = (
            f", {imported / self.seconds:,.0f} records/s" if imported >= 1000 and self.seconds >= 0.1 else ""
        )
        return (
            f"{counted(imported, 'record')} of {self.source_topic} to topic {self.topic}, "
            f"{duration_text(self.seconds)}{rate}"
        )

    def tables(self) -> Iterator[Table]:
        """Return the partitions, below what was done in all."""
        columns = ("Partition", "Rows", "There before", "Imported") if self.partitions else ()
        yield Table(columns, self.partitions, title=self.total())

    def document(self) -> object:
        """Return everything but the failures."""
        return self._asdict() | {"failures": list(self.failures)}
