"""What one broker speaks: the API versions and features that it advertised on a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.protocol.schema.declaration import message_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.messages.api_versions import ApiVersionsResponse


class UnsupportedVersion(KcliError):
    """No version of an API is common to us and the broker; nothing was sent."""


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """`ranges` maps an API key to its lowest and highest version; a feature is (name, lowest, highest)."""

    ranges: Mapping[int, tuple[int, int]]
    supported_features: tuple[tuple[str, int, int], ...] = ()
    finalized_features: tuple[tuple[str, int, int], ...] = ()
    finalized_features_epoch: int = -1

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> NodeVersions:
        """Read an ApiVersions response."""
        return cls(
            {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys},
            tuple((item.name, item.min_version, item.max_version) for item in response.supported_features),
            tuple(
                (item.name, item.min_version_level, item.max_version_level)
                for item in response.finalized_features
            ),
            response.finalized_features_epoch,
        )

    def choose(
        self, request_class: type[Any], *, min_version: int = 0, max_version: int | None = None
    ) -> int:
        """Return the highest common version within the bounds; raise `UnsupportedVersion` without one."""
        info = message_info(request_class)
        low = max(info.min_version, min_version)
        high = info.max_version if max_version is None else min(info.max_version, max_version)
        theirs = self.ranges.get(info.key)
        if theirs is None:
            raise UnsupportedVersion(
                f"the broker does not support {info.name}", hint="a newer broker may be needed"
            )
        if max(low, theirs[0]) > min(high, theirs[1]):
            raise UnsupportedVersion(
                f"no common version of {info.name}: the broker has {theirs[0]} to {theirs[1]}, "
                f"needed is {low} to {high}",
                hint="a newer or older broker may be needed",
            )
        return min(high, theirs[1])

    def supports(self, request_class: type[Any], *, min_version: int = 0) -> bool:
        """Return whether there is a common version of at least `min_version`."""
        info = message_info(request_class)
        low, high = self.ranges.get(info.key, (1, 0))
        return max(low, info.min_version, min_version) <= min(high, info.max_version)
