"""`kcli reassign-partitions generate`: proposes a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.reassignment.options import app, refuse_existing, write_new
from kcli.commands.reassignment.view import Proposal
from kcli.commands.shared.formatting import ids_text
from kcli.commands.shared.options import ClusterAddress, complete_topic
from kcli.commands.shared.output import OutputFormat
from kcli.commands.shared.runner import command
from kcli.errors import MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.commands.reassignment.cluster import Brokers
    from kcli.commands.reassignment.plan import Assignment
    from kcli.commands.reassignment.strategy import Goal
    from kcli.protocol.topics import TopicPartition


class Strategy(StrEnum):
    MINIMAL = "minimal"
    SPREAD = "spread"


@command(app, "generate", example="kcli reassign-partitions generate orders --broker-list 1,2,3")
async def generate(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC...", help="Topics to plan for", autocompletion=complete_topic),
    ] = None,
    topics_to_move_json_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='The topics as JSON: {"topics": [{"topic": "orders"}]}'),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Plan for all topics")] = False,
    broker_list: Annotated[
        str | None, typer.Option(metavar="IDS", help="Brokers that share the replicas evenly, as 1,2,3")
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Brokers that give up all replicas, of all topics unless some are named"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The number of replicas of each partition")
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="minimal moves as little as possible, spread places all replicas anew as Kafka's tool does"
        ),
    ] = Strategy.MINIMAL,
    disable_rack_aware: Annotated[bool, typer.Option("--disable-rack-aware", help="Ignore racks")] = False,
    plan_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the plan to a new file")
    ] = None,
    start_index: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,
    shift: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,
    *,
    cluster: ClusterAddress,
    output: OutputFormat | None = None,
) -> Proposal:
    """Propose a plan; nothing is moved."""
    from kcli.commands.reassignment.plan import parse_brokers
    from kcli.commands.shared.output import chosen_format, note

    request = PlanRequest(
        _topics(topics or (), topics_to_move_json_file, all_topics=all_topics, drains=drain is not None),
        None if broker_list is None else parse_brokers(broker_list, "--broker-list"),
        [] if drain is None else parse_brokers(drain, "--drain"),
        replication_factor,
        without_racks=disable_rack_aware,
    )
    if request.is_empty and strategy is Strategy.MINIMAL:
        raise UsageError("nothing to plan", hint="use `--broker-list`, `--drain` or `--replication-factor`")
    refuse_existing(plan_file, "--plan-file")
    seed = None if strategy is Strategy.MINIMAL else (start_index, shift)
    async with cluster.connect() as client:
        proposal = await _propose(client, request, seed)
    write_new(plan_file, proposal.proposed)
    if proposal.partitions and plan_file is None and chosen_format(output) is OutputFormat.TABLE:
        note("`--plan-file FILE` saves the plan for `execute`, `-o text` shows it")
    return proposal


class PlanRequest(NamedTuple):
    """The options of `generate`: topics (None: all), the brokers to use and to drain, and the replicas."""

    topics: list[str] | None
    given: list[int] | None
    drained: list[int]
    factor: int | None
    without_racks: bool

    @property
    def is_empty(self) -> bool:
        """Tell whether a minimal plan would have nothing to change."""
        return self.given is None and not self.drained and self.factor is None


async def _propose(
    client: Client, request: PlanRequest, seed: tuple[int | None, int | None] | None
) -> Proposal:
    """Make a plan and note what it copies; `seed` is the start of a spread, None asks for a minimal plan."""
    from kcli.commands.reassignment.cluster import places_of, read_brokers
    from kcli.commands.reassignment.execution import copies_text
    from kcli.commands.reassignment.plan import Plan, plan_json
    from kcli.commands.reassignment.strategy import minimal
    from kcli.commands.shared.output import note

    brokers = await read_brokers(client)
    brokers.need(request.given or ())
    current = await _replicas(client, request, brokers)
    factors = _factors(current, request, is_spread=seed is not None)
    goal = _goal(request, brokers, current=current, factors=factors)
    goal.check()
    proposed = minimal(current, goal) if seed is None else _spread(current, goal, *seed)
    now = {partition: current[partition] for partition in proposed}
    holders = {broker for replicas in now.values() for broker in replicas} & brokers.racks.keys()
    places = await places_of(client, holders, now) if now else {}
    copies = Plan(proposed).copies(now, places)
    note(copies_text(copies) if proposed else "nothing to change: all is as requested")
    down = {broker for replicas in proposed.values() for broker in replicas} - brokers.racks.keys()
    if down:
        note(f"warning: `execute` needs these brokers, which are down: {ids_text(sorted(down))}")
    return Proposal(plan_json(now, places), plan_json(proposed), copies, len(proposed))


def _spread(current: Assignment, goal: Goal, start_index: int | None, shift: int | None) -> Assignment:
    from random import randrange

    from kcli.commands.reassignment.strategy import spread

    count = len(goal.candidates)
    return spread(
        current,
        goal,
        start_index=randrange(count) if start_index is None else start_index,
        shift=randrange(count) if shift is None else shift,
    )


def _topics(named: Sequence[str], path: Path | None, *, all_topics: bool, drains: bool) -> list[str] | None:
    from kcli.commands.reassignment.plan import parse_topics, refuse_twice
    from kcli.commands.shared.arguments import not_empty
    from kcli.commands.shared.input_files import read_text

    names = [not_empty(name, "topic") for name in named]
    if path is not None:
        names += parse_topics(read_text(path), str(path))
    if all_topics:
        if names:
            raise UsageError("topics and `--all-topics` exclude each other")
        return None
    if not names:
        if drains:
            return None
        raise MissingArgument("TOPIC")
    refuse_twice(names, "a topic is named twice")
    return names


async def _replicas(client: Client, request: PlanRequest, brokers: Brokers) -> Assignment:
    """Return the replicas of the topics; a broker to drain must exist or hold one of them."""
    from kcli.commands.reassignment.cluster import replicas_of, unknown_brokers

    current = await replicas_of(client, request.topics)
    held = {broker for replicas in current.values() for broker in replicas}
    unknown = sorted(set(request.drained) - held - brokers.racks.keys() - brokers.down)
    if unknown:
        raise unknown_brokers(unknown)
    return current


def _factors(current: Assignment, request: PlanRequest, *, is_spread: bool) -> dict[TopicPartition, int]:
    """Return the replication factor of each partition: the requested one, else its own.

    A spread takes the factor of a topic's first partition, as Kafka's tool does, and warns of changes.
    """
    from kcli.commands.shared.output import warn

    factors: dict[TopicPartition, int] = {}
    first: dict[str, int] = {}
    for partition, replicas in sorted(current.items()):
        own = len(replicas)
        as_first = first.setdefault(partition.topic, own)
        factors[partition] = request.factor or (as_first if is_spread else own)
    if request.factor is None:
        changed = [
            f"{partition} from {len(current[partition])} to {factor}"
            for partition, factor in factors.items()
            if factor != len(current[partition])
        ]
        if changed:
            warn(
                "a spread gives all partitions of a topic as many replicas as the first one has "
                f"(`--strategy minimal` does not): {', '.join(changed)}"
            )
    return factors


def _goal(
    request: PlanRequest, brokers: Brokers, *, current: Assignment, factors: Mapping[TopicPartition, int]
) -> Goal:
    from kcli.assignors.replica_placer import Candidate
    from kcli.commands.reassignment.strategy import Goal

    possible = brokers.racks if request.given is None else request.given
    chosen = [broker for broker in possible if broker not in request.drained]
    held = {broker for replicas in current.values() for broker in replicas}
    return Goal(
        [Candidate(broker, None if request.without_racks else brokers.racks[broker]) for broker in chosen],
        factors,
        frozenset(request.drained if request.given is None else held - set(chosen)),
        is_level=request.given is not None,
    )
