"""NodeSettings: the broker configurations by which nodes and their controller know of each other."""

from __future__ import annotations

from kcli.broker.config_definition import at_least, between, boolean, integer, long
from kcli.broker.controller.controller_settings import ControllerSettings


class NodeSettings:
    """Heartbeats, sessions and the controller's own undertakings; on an instance each reads as its value."""

    broker_heartbeat_interval_ms = integer(
        "broker.heartbeat.interval.ms", 2000, "How often a node says that it is there.", check=at_least(1)
    )
    broker_session_timeout_ms = integer(
        "broker.session.timeout.ms",
        9000,
        "How long a node may be silent before the controller takes its leaderships away.",
        check=at_least(1),
    )
    controller_quorum_fetch_timeout_ms = integer(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "How long the controller's node may be out of reach before another takes office.",
        check=at_least(0),
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable", True, "Whether preferred replicas are made leaders again."
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often it is looked whether preferred replicas lead.",
        check=at_least(1),
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        0,
        "How many percent of the partitions that prefer a node may be led elsewhere, as before Kafka 4.",
        check=between(0, 100),
        internal=True,
    )
    unclean_leader_election_interval_ms = long(
        "unclean.leader.election.interval.ms",
        300_000,
        "How often partitions without a leader are looked for whose topics would rather lose records.",
        check=at_least(1),
    )


def controller_settings(settings: NodeSettings) -> ControllerSettings:
    """Return what the controller goes by when the node with these settings holds its office."""
    return ControllerSettings(
        broker_session_timeout_ms=int(settings.broker_session_timeout_ms),
        auto_leader_rebalance=bool(settings.auto_leader_rebalance_enable),
        leader_imbalance_check_interval_ms=int(settings.leader_imbalance_check_interval_seconds) * 1000,
        leader_imbalance_percentage=int(settings.leader_imbalance_per_broker_percentage),
        unclean_election_interval_ms=int(settings.unclean_leader_election_interval_ms),
    )
