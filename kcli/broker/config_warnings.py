"""ConfigWarnings: one line in the broker's log when somebody sets what has no effect.

The response of the API has no place for it, and refusing would break clients: a framework that makes its
topics compacted cannot start without them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.inert_configs import warning
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kcli.broker.metadata_image import ConfigResource, MetadataDelta, MetadataImage

_log = logging.getLogger(__name__)


class ConfigWarnings:
    """Follows the metadata from `image` on."""

    __slots__ = ("_image",)

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Tell of the values that are new or different in `image`."""
        for resource in sorted(delta.changed_configs):
            if resource[0] == ConfigResourceType.TOPIC and resource[1] in INTERNAL_TOPICS:
                continue  # Nobody set those.
            before = self._image.configs.get(resource, {})
            for name, value in image.configs.get(resource, {}).items():
                line = warning(name, value) if before.get(name) != value else None
                if line is not None:
                    _log.warning("%s: %s", _owner(resource), line)
        self._image = image


def _owner(resource: ConfigResource) -> str:
    kind, name = resource
    if kind in {ConfigResourceType.TOPIC, ConfigResourceType.GROUP}:
        return f"{'topic' if kind == ConfigResourceType.TOPIC else 'group'} `{name}`"
    return f"node {name}" if name else "all nodes"
