"""DumpOptions: what a dump is to show, whatever it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.commands.dump.decoders import Decoder
    from kcli.commands.dump.filters import Filter

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""The default of Kafka's tool."""


class DumpOptions(NamedTuple):
    """What to read of each file, and how much of it to show."""

    decoder: Decoder
    filter: Filter
    prints_contents: bool = False
    deep: bool = False
    skips_metadata: bool = False
    max_bytes: int | None = None
    max_message_size: int = MAX_MESSAGE_SIZE
    verify_index_only: bool = False
    index_sanity_check: bool = False
    continues: bool = False

    @property
    def shows_only_batches(self) -> bool:
        """Whether all batches are shown, and no records."""
        return not self.deep and self.filter.is_empty
