"""How a process begins: directories and ports of all its nodes first, then the metadata.

Nothing is left behind by a start that fails there: a mistake in any node's directories or ports is found
before anything is written but whose the directories are, which is taken back.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from kcli.broker.config_warnings import ConfigWarnings
from kcli.broker.controller.cluster_restart import nodes_went_down
from kcli.broker.listener_ports import check_ports
from kcli.broker.metadata_copies import bring_level, set_aside
from kcli.broker.metadata_damage import Loss, find_loss, has_served
from kcli.broker.metadata_replay import InvalidMetadata
from kcli.broker.node_layout import is_id_lost, known_cluster_id, make_directories
from kcli.errors import KcliError
from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import random_uuid, uuid_to_text
from kcli.storage.dirs.log_directory import META_PROPERTIES
from kcli.storage.disk import remove_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.broker.cluster import Cluster
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.controller import Controller
    from kcli.broker.node import Node

_log = logging.getLogger(__name__)


def open_nodes(cluster: Cluster) -> list[Node]:
    """Make the places of all nodes; lock the directories and bind the ports of those to start.

    Raises `KcliError`, and leaves the directories as they were then.
    """
    layout = cluster.layout
    to_start = layout.to_start()
    configs = {each: layout.config(each) for each in sorted({*to_start, *layout.present()})}
    check_ports([configs[each] for each in to_start])
    log_dirs = [path for each in to_start for path in layout.log_dirs(configs[each])]
    _refuse_lost_metadata(cluster, [configs[each] for each in to_start], configs.values())
    made = make_directories(log_dirs)
    nodes: list[Node] = []
    try:
        known_id = known_cluster_id(log_dirs)
        cluster.cluster_id = known_id or uuid_to_text(random_uuid())
        for config in configs.values():
            cluster.new_node(config)
        lost_ids = lost_directory_ids(cluster, to_start)
        for node_id in to_start:
            node = cluster.nodes[node_id]
            for warning in node.config.warnings:
                _log.warning(warning)
            node.open(lost_ids.get(node_id))
            nodes.append(node)
    except BaseException:
        for node in nodes:
            node.broker.log_manager.directories.abandon()
        remove_empty(made)
        raise
    if known_id is None:
        _warn_of_new_id(cluster.cluster_id, log_dirs)
    return nodes


def lost_directory_ids(cluster: Cluster, node_ids: Iterable[int]) -> Mapping[int, bytes]:
    """Return, by node, the id that its log directory without one is to take back. Raises `KcliError`."""
    lost = [each for each in node_ids if is_id_lost(cluster.nodes[each].log_dirs)]
    if not lost:
        return {}
    from kcli.broker.lost_directory_ids import find_lost_ids  # Hardly any start needs it.

    return find_lost_ids({node.node_id: node.log_dirs for node in cluster.nodes.values()}, lost)


def _refuse_lost_metadata(
    cluster: Cluster, to_start: Iterable[BrokerConfig], present: Iterable[BrokerConfig]
) -> None:
    """Raise `InvalidMetadata` where nodes have replicas, and no node has metadata that tells of them."""
    layout = cluster.layout
    if not any(has_served(layout.log_dirs(config)) for config in to_start):
        return
    losses: list[Loss] = []
    for config in present:
        try:
            loss = find_loss(layout.log_dirs(config)[0])
        except OSError:
            return  # Opening it tells what is wrong.
        if loss is None:
            return
        losses.append(loss)
    worst = max(losses, key=lambda loss: loss.is_damage)
    if worst.is_damage or not cluster.options.adopt:
        raise worst.refusal()


def _warn_of_new_id(cluster_id: str, log_dirs: Iterable[str]) -> None:
    """Warn where the metadata of a cluster is older than its id, and does not tell the one it had."""
    for log_dir in log_dirs:
        if os.path.isdir(f"{log_dir}/{METADATA_TOPIC}-0"):
            _log.warning(
                "`%s` has metadata of a cluster, but no `%s` tells its id: it is %s from now on",
                log_dir,
                META_PROPERTIES,
                cluster_id,
            )
            return


def open_office(cluster: Cluster, node_ids: list[int]) -> Controller:
    """Open the copies of the metadata log, and have the node with the newest take office.

    Raises `KcliError`.
    """
    _open_copies(cluster)
    copies = cluster.office.copies
    holder, newest = copies.newest(node_ids), copies.newest(cluster.nodes)
    assert holder is not None
    assert newest is not None
    try:
        # A node that stays down may have been the last one that decided anything.
        if copies.version(newest) > copies.version(holder):
            bring_level(copies[holder], copies[newest])
        for node_id in cluster.nodes.keys() - set(node_ids):
            copies.close(node_id)
        controller = cluster.office.take(holder)
    except OSError as error:
        raise KcliError(f"cannot read the metadata log of node {holder}: {error.strerror}") from error
    nodes_went_down(controller, returning=node_ids)
    cluster.office.observe(ConfigWarnings(controller.image).follow)
    return controller


def _open_copies(cluster: Cluster) -> None:
    """Open the copies of all nodes. A damaged one is made anew from the others, if there is a sound one."""
    damaged: dict[int, InvalidMetadata] = {}
    for node in cluster.nodes.values():
        try:
            open_copy(cluster, node)
        except InvalidMetadata as found:
            damaged[node.node_id] = found
    if damaged and not any(log.end_offset for _, log in cluster.office.copies):
        raise min(damaged.items())[1]
    for node_id, error in damaged.items():
        node = cluster.nodes[node_id]
        try:
            kept = set_aside(node.broker.metadata_directory)
        except OSError as failure:
            raise error from failure
        _log.warning("%s; node %d gets another copy, this one is kept in `%s`", error.message, node_id, kept)
        open_copy(cluster, node)


def open_copy(cluster: Cluster, node: Node) -> None:
    """Open a node's copy of the metadata log. Raises `KcliError`."""
    log_dir = node.broker.metadata_directory
    try:
        cluster.office.copies.open(node.node_id, log_dir)
    except OSError as error:
        raise KcliError(f"cannot open the metadata log in `{log_dir}`: {error.strerror}") from error
