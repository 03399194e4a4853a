"""Shard: what the runtime asks of a coordinator's shard, whichever coordinator it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.broker.metadata.metadata_image import MetadataDelta


class Shard(Protocol):
    """The state of one partition of an internal topic; pure.

    Its other methods are events that come as requests: `runtime.ask` names them.
    """

    def replay(self, key: Any, value: Any) -> None:  # noqa: ANN401 - any record of its topic
        """Take in a record that is in the log; `value` is None where it deletes."""
        ...

    def loaded(self, now: Now) -> list[Effect]:
        """Begin: all of the log has been replayed."""
        ...

    def unloaded(self, now: Now) -> list[Effect]:
        """End: answer everything that is parked. Nothing can be appended any more."""
        ...

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        """Judge what a timer was scheduled for."""
        ...

    def image_changed(self, now: Now, delta: MetadataDelta) -> list[Effect]:
        """React to a change of the metadata."""
        ...
