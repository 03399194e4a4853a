"""The steps of a scenario happen at their times, faults end at theirs, and what fails is said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.faults.faults import Faults
from kcli.broker.faults.scenario import parse_scenario
from kcli.broker.process.cluster import Cluster
from kcli.broker.process.scenario_run import run_scenario
from kcli.errors import KcliError

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock


class ClusterWithoutNodes:
    """A cluster to which nothing can be done but what concerns its requests."""

    def __init__(self) -> None:
        self.brokers: list[Any] = []
        self.peers: Any = None
        self.nodes: dict[int, Any] = {}
        self.faults = Faults(self)

    node: Any = Cluster.node

    @property
    def controller(self) -> Any:
        raise KcliError("no node is the controller, for now")


async def test_faults_begin_and_end_at_their_times(autojump_clock: MockClock) -> None:
    cluster: Any = ClusterWithoutNodes()
    scenario = parse_scenario(
        """
seed: 9
steps:
  - {at: 1, do: drop, api: Produce, for: 4}
  - {after: 2, do: delay, delay_ms: 5, name: late}
  - {after: 1, do: clear, name: late}
  - {at: 10, do: drop}
  - {at: 11, do: clear}
""",
        "s.yaml",
    )
    seen = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_scenario, cluster, scenario)
        for at in (0.5, 1.5, 3.5, 4.5, 5.5, 10.5, 11.5):
            await trio.sleep_until(at)
            seen.append([active.fault.kind for active in cluster.faults.active])
    assert seen == [[], ["drop"], ["drop", "delay"], ["drop"], [], ["drop"], []]
    assert cluster.faults.seed == 9


async def test_a_step_that_fails_is_said_and_the_others_go_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster: Any = ClusterWithoutNodes()
    scenario = parse_scenario(
        """
steps:
  - {do: drop, node: 4, name: nobody}
  - {do: move-leader, topic: orders, partition: 0, to: 2}
  - {do: kill, node: 2}
  - {after: 1, do: clear, name: nobody}
  - {do: drop}
""",
        "s.yaml",
    )
    with caplog.at_level(logging.WARNING):
        await run_scenario(cluster, scenario)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "s.yaml:3: there is no node 4",
        "s.yaml:4: no node is the controller, for now",
        "s.yaml:5: there is no node 2",
        "s.yaml:6: `nobody` has not begun",
    ]
    assert [active.fault.kind for active in cluster.faults.active] == ["drop"]
