"""ControllerSettings: how patient the controller is with brokers, and what it does of its own accord."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The configuration of the node that is in office, as far as the controller goes by it.

    Leaders are given back to the preferred replicas of a broker when more than
    `leader_imbalance_percentage` of the partitions that prefer it are led elsewhere.
    """

    broker_session_timeout_ms: int = 9000
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_percentage: int = 0
    unclean_election_interval_ms: int = 300_000
