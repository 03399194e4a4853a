"""CorruptBatch: an entry that is none, or not the one that was written."""

from __future__ import annotations

from functools import partial

from kcli.errors import KcliError


class CorruptBatch(KcliError):
    """The entry at `position` cannot be read.

    `size` is what its header claims, 0 where no size can be told. `first` and `last` are the offsets that the
    header claims, -1 where there is no header.
    """

    def __init__(
        self, where: str, position: int, reason: str, *, size: int = 0, first: int = -1, last: int = -1
    ) -> None:
        offsets = f", offsets {first} to {last}" if first >= 0 else ""
        super().__init__(
            f"corrupt batch in {where} at position {position}{offsets}: {reason}",
            hint="`--on-corrupt skip` exports what can be read, and records what is missing",
        )
        self.where = where
        self.position = position
        self.reason = reason
        self.size = size
        self.first = first
        self.last = last

    def __reduce__(self) -> tuple[partial[CorruptBatch], tuple[()]]:
        """Travel between processes."""
        fields = {"size": self.size, "first": self.first, "last": self.last}
        return partial(type(self), self.where, self.position, self.reason, **fields), ()
