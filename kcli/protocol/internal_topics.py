"""The topics that belong to the cluster itself (class `Topic`).

The coordinators keep their state in `INTERNAL_TOPICS`, which are ordinary topics with ordinary logs. The
metadata log has the name and the shape of a topic's partition, and is none: the controller alone writes it.
"""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"
