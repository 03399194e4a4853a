"""The run of a scenario: each step at its time, on a running cluster.

A step that fails is logged and the scenario goes on, because the failure may be what it is meant to show.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kcli.broker.faults.fault import KINDS
from kcli.broker.process.fault_operations import perform
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.faults.scenario import Scenario, Step
    from kcli.broker.process.cluster import Cluster

_log = logging.getLogger(__name__)


async def run_scenario(cluster: Cluster, scenario: Scenario) -> None:
    """Run the steps of a scenario, timed from now; return when all steps and timed faults are over."""
    cluster.faults.seed = scenario.seed
    started = trio.current_time()
    numbers: dict[str, int] = {}
    count = len(scenario.steps)
    _log.info(
        "scenario `%s`: %d step%s, seed %d", scenario.path, count, "" if count == 1 else "s", scenario.seed
    )
    async with trio.open_nursery() as nursery:
        for step in scenario.steps:
            await trio.sleep_until(started + step.at_seconds)
            if step.action in KINDS or step.action == "clear":
                _do_fault(cluster, scenario, step, numbers=numbers, nursery=nursery)
            else:
                # A stop may take its time; the next step does not wait for it.
                nursery.start_soon(_do, cluster, scenario, step)
    _log.info("scenario `%s` is over", scenario.path)


def _do_fault(
    cluster: Cluster, scenario: Scenario, step: Step, *, numbers: dict[str, int], nursery: trio.Nursery
) -> None:
    _log.info("scenario, %g s: %s", step.at_seconds, step)
    try:
        if step.action == "clear" and step.name is None:
            cluster.faults.clear_all()
        elif step.action == "clear":
            assert step.name is not None
            if step.name not in numbers:
                raise KcliError(f"`{step.name}` has not begun")
            cluster.faults.clear(numbers[step.name])
        else:
            number = cluster.faults.add(step.action, **step.options).number
            if step.name is not None:
                numbers[step.name] = number
            if step.for_seconds is not None:
                nursery.start_soon(_clear_later, cluster, number, step.for_seconds)
    except KcliError as error:
        _log.warning("%s:%d: %s", scenario.path, step.line, error.message)


async def _clear_later(cluster: Cluster, number: int, seconds: float) -> None:
    await trio.sleep(seconds)
    if any(active.number == number for active in cluster.faults.active):
        cluster.faults.clear(number)


async def _do(cluster: Cluster, scenario: Scenario, step: Step) -> None:
    _log.info("scenario, %g s: %s", step.at_seconds, step)
    try:
        await perform(cluster, step.action, step.options)
    except KcliError as error:
        _log.warning("%s:%d: %s", scenario.path, step.line, error.message)
