"""Schedules: what happens to a cluster of three nodes and when, made from a seed.

A schedule has several processes on the same directories. In each, the faults below begin at random times and
end after a while. Then all is repaired, the clients catch up, and the process is stopped in order or killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES = (1, 2, 3)
START_SECONDS = 2.0
"""How long a node may take to be there again."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event at a moment of a process's life."""

    at: float
    action: str
    arguments: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.action} {' '.join(map(str, self.arguments))}"


@dataclass(frozen=True, slots=True)
class Life:
    """One process: its events, its duration, and whether it ends by a kill."""

    events: tuple[Event, ...]
    seconds: float
    kill: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """Lives, one after another."""

    seed: int
    lives: tuple[Life, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        for life in self.lives:
            lines += [str(event) for event in life.events]
            lines.append(f"{life.seconds:6.2f} s  {'kill' if life.kill else 'stop'} the process")
        return "\n".join(lines)


def make_schedule(
    seed: int,
    *,
    lives: int = 2,
    harms: int = 6,
    seconds: float = 4.0,
    weights: Mapping[str, int] | None = None,
) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(seed)
    return Schedule(
        seed,
        tuple(
            _life(random, random.randint(1, harms), seconds, WEIGHTS if weights is None else weights)
            for _ in range(lives)
        ),
    )


def _life(random: Random, harms: int, seconds: float, weights: Mapping[str, int]) -> Life:
    chosen = [_harm(random, seconds, weights) for _ in range(harms)]
    events = [event for harm in chosen if not _may_be_the_end(harm, chosen) for event in harm]
    events.sort(key=lambda event: event.at)
    return Life(tuple(events), seconds, random.random() < 0.5)


def _may_be_the_end(harm: list[Event], others: list[list[Event]]) -> bool:
    """Return whether a full disk could meet the last running node: that ends a process."""
    down = [each for each in others if each[-1].action == "start"]
    return (
        harm[-1].action == "start"
        and harm[0].action == "fault"
        and any(
            each is not harm
            and each[0].at < harm[-1].at + START_SECONDS
            and harm[0].at < each[-1].at + START_SECONDS
            for each in down
        )
    )


WEIGHTS = {
    "kill": 4,
    "stop": 2,
    "pause": 3,
    "isolate": 3,
    "cut": 3,
    "slow": 1,
    "lose": 1,
    "freeze": 1,
    "request": 3,
    "fill-disk": 1,
    "move": 3,
    "elect": 1,
    "reassign": 2,
    "controller": 1,
}
"""What may happen, and how often in comparison."""

TRANSACTION_WEIGHTS = {**WEIGHTS, "move-coordinator": 4, "hold-markers": 2, "transaction-request": 4}
"""The same with transactions."""


def _harm(random: Random, seconds: float, weights: Mapping[str, int]) -> list[Event]:
    begin = random.uniform(0, seconds * 0.8)
    end = min(seconds, begin + random.choice((0.05, 0.3, 1.0, 2.5)) * random.uniform(0.5, 1.5))
    node = random.choice(NODES)
    kind = random.choices([*weights], weights=[*weights.values()])[0]
    match kind:
        case "kill" | "stop":
            return [Event(begin, kind, (node,)), Event(end, "start", (node,))]
        case "pause":
            return [Event(begin, "pause", (node,)), Event(end, "resume", (node,))]
        case "isolate" | "freeze":
            return _fault(begin, end, kind, node=node)
        case "fill-disk":
            return [*_fault(begin, end, kind, node=node), Event(end + 0.01, "start", (node,))]
        case "cut" | "slow" | "lose":
            return _link_fault(random, begin, end, kind)
        case "request":
            return _request_fault(random, begin, end)
        case "transaction-request":
            return _transaction_fault(random, begin, end)
        case "hold-markers":
            return _fault(begin, end, kind)
        case "move-coordinator":
            return [Event(begin, kind, (node,))]
        case "move":
            return [Event(begin, "move", (random.randrange(2), node))]
        case "reassign":
            replicas = tuple(random.sample(NODES, random.choice((2, 3, 3))))
            return [Event(begin, "reassign", (random.randrange(2), replicas))]
        case "controller":
            return [Event(begin, "controller", (node,))]
        case _:
            return [Event(begin, "elect")]


def _fault(begin: float, end: float, kind: str, **options: object) -> list[Event]:
    name = f"{kind}-{begin:.3f}"
    return [Event(begin, "fault", (name, kind, *options.items())), Event(end, "clear", (name,))]


def _link_fault(random: Random, begin: float, end: float, kind: str) -> list[Event]:
    source, target = random.sample(NODES, 2)
    more: dict[str, object] = {
        "cut": {"one_way": random.random() < 0.5},
        "slow": {"delay_ms": random.choice((5, 50, 700))},
        "lose": {"next": random.randint(1, 3)},
    }[kind]
    return _fault(begin, end, kind, **{"from": source, "to": target, **more})


def _request_fault(random: Random, begin: float, end: float) -> list[Event]:
    kind = random.choice(("drop", "disconnect", "delay", "error"))
    api = random.choice(("Produce", "Produce", "Fetch", "Metadata"))
    # Java's consumer fails on a fetch response that no broker sends.
    passing = "KAFKA_STORAGE_ERROR" if api == "Fetch" else "REQUEST_TIMED_OUT"
    more: dict[str, object] = {
        "delay": {"delay_ms": random.choice((10, 500))},
        "error": {"code": random.choice((passing, "NOT_LEADER_OR_FOLLOWER"))},
    }.get(kind, {})
    after = random.random() < 0.7 and api == "Produce"
    # A broker knows a producer's last five batches, as Kafka's does. Where the answer to one is lost twice
    # while others are answered, it is pushed out, and repeating it is refused until the producer gives up.
    often: dict[str, object] = {"next": 1} if after and kind in ("drop", "error") else {"probability": 0.5}
    return _fault(begin, end, kind, api=api, after=after, **often, **more)


def _transaction_fault(random: Random, begin: float, end: float) -> list[Event]:
    kind = random.choice(("drop", "disconnect", "delay", "error"))
    api = random.choice(("InitProducerId", "AddPartitionsToTxn", "EndTxn", "EndTxn", "FindCoordinator"))
    more: dict[str, object] = {
        "delay": {"delay_ms": random.choice((10, 500))},
        "error": {"code": random.choice(("COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"))},
    }.get(kind, {})
    after = random.random() < 0.7
    return _fault(begin, end, kind, api=api, after=after, probability=0.5, **more)
