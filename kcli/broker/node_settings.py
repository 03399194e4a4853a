"""NodeSettings: the broker configurations by which nodes and their controller know of each other."""

from __future__ import annotations

from kcli.broker.config_definition import at_least, boolean, integer, long
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
        check=at_least(1),
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


def controller_settings(settings: NodeSettings) -> ControllerSettings:
    """Return what the controller goes by when the node with these settings holds its office."""
    return ControllerSettings(
        broker_session_timeout_ms=int(settings.broker_session_timeout_ms),
        auto_leader_rebalance=bool(settings.auto_leader_rebalance_enable),
        leader_imbalance_check_interval_ms=int(settings.leader_imbalance_check_interval_seconds) * 1000,
    )
