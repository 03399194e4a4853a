"""Features: what level of each the cluster works at (KIP-584).

A cluster begins at the highest levels of this program, and an older cluster is raised to them when the
controller starts. A feature is listed when what it stands for works, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.result import ControllerResult
from kcli.protocol.metadata_records import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.metadata_image import MetadataImage

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    # From 3.3-IV3, the first that a cluster without ZooKeeper could begin at, to 4.3-IV0.
    METADATA_VERSION: (7, 30),
    # 1 is groups whose coordinator assigns (KIP-848).
    GROUP_VERSION: (0, 1),
}
"""Lowest and highest level by name."""


def finalize_features(image: MetadataImage) -> ControllerResult[None]:
    """Raise every feature to the highest level. `metadata.version` comes first in a log, as in Kafka's."""
    records = tuple(
        FeatureLevelRecord(name=name, feature_level=highest)
        for name, (_, highest) in SUPPORTED_FEATURES.items()
        if image.features.get(name, 0) < highest
    )
    return ControllerResult(records, None)
