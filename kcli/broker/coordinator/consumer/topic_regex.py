"""ResolvedRegex: what the expression of a subscription matched (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.broker.coordinator.effects import Now
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.topic_expression import Effort, TopicExpression


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched at an offset of the metadata log, and when."""

    topics: frozenset[str]
    version: int
    wall_ms: int

    @classmethod
    def of(cls, expression: TopicExpression, image: MetadataImage, now: Now, effort: Effort) -> ResolvedRegex:
        """Match an expression against all topics; raise `TakesTooLong` if that takes too many steps."""
        topics = frozenset(name for name in image.topics if expression.matches(name, effort))
        return cls(topics, image.offset, now.wall_ms)
