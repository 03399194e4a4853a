"""`kcli reassign-partitions generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.reassignment.options import app, refuse_existing, write_new
from kcli.commands.reassignment.view import Proposal, ids
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
    """How a plan gets to its goal."""

    MINIMAL = "minimal"
    SPREAD = "spread"


@command(app, "generate", example="kcli reassign-partitions generate orders --broker-list 1,2,3")
async def generate(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC...",
            help="Topics to plan for",
            autocompletion=complete_topic,
            show_default=False,
        ),
    ] = None,
    topics_to_move_json_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='The topics as JSON: {"topics": [{"topic": "orders"}]}',
            show_default=False,
        ),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Plan for all topics")] = False,
    broker_list: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="Brokers that share the replicas evenly, as 1,2,3"),
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Brokers that give up all replicas, of all topics if none are named"
        ),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Replicas that each partition shall have")
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(help="minimal moves as little as it can, spread places all anew as Kafka's tool does"),
    ] = Strategy.MINIMAL,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Place replicas without a look at racks")
    ] = False,
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

    wish = Wish(
        _topics(topics or (), topics_to_move_json_file, all_topics=all_topics, drains=drain is not None),
        None if broker_list is None else parse_brokers(broker_list, "--broker-list"),
        [] if drain is None else parse_brokers(drain, "--drain"),
        replication_factor,
        without_racks=disable_rack_aware,
    )
    if wish.is_empty and strategy is Strategy.MINIMAL:
        raise UsageError(
            "nothing to plan for", hint="`--broker-list`, `--drain` or `--replication-factor` say what for"
        )
    refuse_existing(plan_file, "--plan-file")
    seed = None if strategy is Strategy.MINIMAL else (start_index, shift)
    async with cluster.connect() as client:
        proposal = await _propose(client, wish, seed)
    write_new(plan_file, proposal.proposed)
    if proposal.partitions and plan_file is None and chosen_format(output) is OutputFormat.TABLE:
        note("`--plan-file FILE` keeps the plan for `execute`, `-o text` shows it")
    return proposal


class Wish(NamedTuple):
    """What is asked for: topics (None: all), brokers that share them, that give them up, and replicas."""

    topics: list[str] | None
    given: list[int] | None
    drained: list[int]
    factor: int | None
    without_racks: bool

    @property
    def is_empty(self) -> bool:
        """Tell whether a minimal plan would have nothing to change."""
        return self.given is None and not self.drained and self.factor is None


async def _propose(client: Client, wish: Wish, seed: tuple[int | None, int | None] | None) -> Proposal:
    """Plan, and tell what that copies; a `seed` asks for a spread from there, or from anywhere."""
    from kcli.commands.reassignment.cluster import places_of, read_brokers
    from kcli.commands.reassignment.execution import copies_text, planned_copies
    from kcli.commands.reassignment.plan import Plan, copies_of, plan_json
    from kcli.commands.reassignment.strategy import minimal
    from kcli.commands.shared.output import note

    brokers = await read_brokers(client)
    brokers.need(wish.given or ())
    current = await _replicas(client, wish, brokers)
    factors = _factors(current, wish, is_spread=seed is not None)
    goal = _goal(wish, brokers, current=current, factors=factors)
    goal.check()
    proposed = minimal(current, goal) if seed is None else _spread(current, goal, *seed)
    now = {partition: current[partition] for partition in proposed}
    holders = {broker for replicas in now.values() for broker in replicas} & brokers.racks.keys()
    places = await places_of(client, holders, now) if now else {}
    copies = planned_copies(copies_of(Plan(proposed), now, places))
    note(copies_text(copies) if proposed else "nothing to change: all is as it was asked for")
    down = {broker for replicas in proposed.values() for broker in replicas} - brokers.racks.keys()
    if down:
        note(f"warning: `execute` wants these back first, which keep replicas: broker {ids(sorted(down))}")
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
    """Return the topics to plan for, None for all."""
    from kcli.commands.reassignment.plan import parse_topics, refuse_twice
    from kcli.commands.shared.input_files import read_text

    names = list(named)
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


async def _replicas(client: Client, wish: Wish, brokers: Brokers) -> Assignment:
    """Return the replicas of the topics; a broker to be drained must exist, or hold some of them."""
    from kcli.commands.reassignment.cluster import replicas_of, unknown_brokers

    current = await replicas_of(client, wish.topics)
    held = {broker for replicas in current.values() for broker in replicas}
    unknown = sorted(set(wish.drained) - held - brokers.racks.keys() - brokers.down)
    if unknown:
        raise unknown_brokers(unknown)
    return current


def _factors(current: Assignment, wish: Wish, *, is_spread: bool) -> dict[TopicPartition, int]:
    """Return how many replicas each partition shall have: its own number, or what was asked for.

    A spread gives a whole topic the number of its first partition, as Kafka's tool does, and says so where
    that is another.
    """
    from kcli.commands.shared.output import warn

    factors: dict[TopicPartition, int] = {}
    first: dict[str, int] = {}
    for partition, replicas in sorted(current.items()):
        own = len(replicas)
        as_first = first.setdefault(partition.topic, own)
        factors[partition] = wish.factor or (as_first if is_spread else own)
    if wish.factor is None:
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
    wish: Wish, brokers: Brokers, *, current: Assignment, factors: Mapping[TopicPartition, int]
) -> Goal:
    from kcli.assignors.replica_placer import Candidate
    from kcli.commands.reassignment.strategy import Goal

    possible = brokers.racks if wish.given is None else wish.given
    chosen = [broker for broker in possible if broker not in wish.drained]
    held = {broker for replicas in current.values() for broker in replicas}
    return Goal(
        [Candidate(broker, None if wish.without_racks else brokers.racks[broker]) for broker in chosen],
        factors,
        frozenset(wish.drained if wish.given is None else held - set(chosen)),
        is_level=wish.given is not None,
    )
