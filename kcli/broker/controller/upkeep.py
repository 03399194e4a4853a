"""Upkeep: when the controller balances leaders, and elects unclean ones, of its own accord."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.controller.controller_settings import ControllerSettings

FIRST_REBALANCE_MS = 5000
"""How long after taking office leaders are balanced first."""


@dataclass(slots=True)
class Upkeep:
    """The next time of each undertaking, in one term; both are None until the first look at the clock."""

    _rebalance_ms: int | None = None
    _unclean_ms: int | None = None

    def rebalance_is_due(self, now_ms: int, settings: ControllerSettings) -> bool:
        """True if leaders are to be balanced now; the next time is an interval later."""
        if self._rebalance_ms is None:
            self._rebalance_ms = now_ms + FIRST_REBALANCE_MS
        if not settings.auto_leader_rebalance or now_ms < self._rebalance_ms:
            return False
        self._rebalance_ms = now_ms + settings.leader_imbalance_check_interval_ms
        return True

    def rebalance_soon(self) -> None:
        """Have leaders balanced at the next look: one pass was not enough."""
        self._rebalance_ms = 0

    def unclean_is_due(self, now_ms: int, settings: ControllerSettings) -> bool:
        """True if leaderless partitions are to be looked through; the next time is an interval later."""
        if self._unclean_ms is None:
            self._unclean_ms = now_ms + settings.unclean_election_interval_ms
        if now_ms < self._unclean_ms:
            return False
        self._unclean_ms = now_ms + settings.unclean_election_interval_ms
        return True

    def unclean_soon(self) -> None:
        """Have leaderless partitions looked through at the next look: something about topics has changed."""
        self._unclean_ms = 0
