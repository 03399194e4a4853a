"""ConfigWarnings: a line for each configuration that was set and does nothing, once."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.controller import Controller
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.process.cluster_events import ConfigWarnings
from kcli.protocol.configs import ConfigOperation, ConfigResourceType
from tests.support.metadata import MemoryLog, broker, image_of

if TYPE_CHECKING:
    import pytest

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


class Harness:
    """A controller with a topic, and what is said of its configurations."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING)
        self._caplog = caplog
        self.controller = Controller(MemoryLog(), image_of(broker(1)), random=random.Random(0))
        self.controller.publisher.observe(ConfigWarnings(self.controller.image).follow)

    def create(self, name: str, **configs: str) -> list[str]:
        new = NewTopic(name, 1, 1, configs={key.replace("_", "."): configs[key] for key in configs})
        self.controller.create_topics([new], defaults=TopicDefaults())
        return self.said()

    def set(self, kind: int, owner: str, name: str, value: str) -> list[str]:
        change = ConfigChange(name, ConfigOperation.SET, value)
        outcomes = self.controller.incremental_alter_configs(
            [((kind, owner), [change])], defaults=TopicDefaults()
        )
        assert outcomes == [None]
        return self.said()

    def said(self) -> list[str]:
        lines = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return lines


def test_a_configuration_of_a_topic_without_effect_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(caplog)
    line = "topic `{}`: `local.retention.ms` has no effect in kcli"
    assert harness.create("a", local_retention_ms="7") == [line.format("a")]
    assert harness.create("b", cleanup_policy="compact,delete", delete_retention_ms="1") == []
    assert harness.set(TOPIC, "a", "retention.ms", "50") == []
    assert harness.set(TOPIC, "b", "local.retention.ms", "7") == [line.format("b")]


def test_configurations_of_nodes_without_effect_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(caplog)
    line = "`log.local.retention.ms` has no effect in kcli"
    assert harness.set(BROKER, "", "log.local.retention.ms", "100") == [f"all nodes: {line}"]
    assert harness.set(BROKER, "1", "log.local.retention.ms", "100") == [f"node 1: {line}"]
    assert harness.set(BROKER, "1", "max.connections", "5") == []
