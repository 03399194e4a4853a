"""Journal: what the controller needs of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.broker.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord


class Journal(Protocol):
    """A log of decisions, in terms."""

    @property
    def epoch(self) -> int:
        """The epoch of the newest batch."""
        ...

    @property
    def end_offset(self) -> int:
        """The next offset."""
        ...

    def copy_ends(self) -> Mapping[int, int]:
        """Return the next offset of each copy of the log that is reached, by node."""
        ...

    def compact(self, image: MetadataImage) -> None:
        """Make room, if there is need: `image` is all that the log says."""
        ...

    def begin_term(self) -> int:
        """Begin the next epoch."""
        ...

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Write one batch durably; return the offset of its last record."""
        ...
