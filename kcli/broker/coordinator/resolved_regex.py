"""ResolvedRegex: which topics an expression matches, in one version of the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.topic_expression import Effort, TopicExpression
    from kcli.broker.metadata.metadata_image import MetadataImage


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched at an offset of the metadata log, and when that was found out."""

    topics: frozenset[str]
    version: int
    wall_ms: int

    @classmethod
    def of(cls, expression: TopicExpression, image: MetadataImage, now: Now, effort: Effort) -> ResolvedRegex:
        """Match an expression against all topics there are; raise `TakesTooLong` if that is too much."""
        topics = frozenset(name for name in image.topics if expression.matches(name, effort))
        return cls(topics, image.offset, now.wall_ms)
