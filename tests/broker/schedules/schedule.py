"""Schedules: what happens to a cluster of three nodes and when, made from a seed.

A schedule is a life of several processes on the same directories. In each the harms below come at random
times and go after a while; then everything is repaired, the clients catch up, and the process is stopped in
order or killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

NODES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at a moment of a process's life."""

    at: float
    action: str
    arguments: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.action} {' '.join(map(str, self.arguments))}"


@dataclass(frozen=True, slots=True)
class Life:
    """One process: what happens in it, for how long, and whether it ends by a kill."""

    events: tuple[Event, ...]
    seconds: float
    kill: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """Lives one after another."""

    seed: int
    lives: tuple[Life, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        for life in self.lives:
            lines += [str(event) for event in life.events]
            lines.append(f"{life.seconds:6.2f} s  {'kill' if life.kill else 'stop'} the process")
        return "\n".join(lines)


def make_schedule(seed: int, *, lives: int = 2, harms: int = 6, seconds: float = 4.0) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(seed)
    return Schedule(
        seed, tuple(_life(random, harms=random.randint(1, harms), seconds=seconds) for _ in range(lives))
    )


def _life(random: Random, *, harms: int, seconds: float) -> Life:
    events: list[Event] = []
    for _ in range(harms):
        events += _harm(random, seconds)
    events.sort(key=lambda event: event.at)
    return Life(tuple(events), seconds, random.random() < 0.5)


def _harm(random: Random, seconds: float) -> list[Event]:
    begin = random.uniform(0, seconds * 0.8)
    end = min(seconds, begin + random.choice((0.05, 0.3, 1.0, 2.5)) * random.uniform(0.5, 1.5))
    node = random.choice(NODES)
    first, second = random.sample(NODES, 2)
    partition = random.randrange(2)
    kind = random.choices(
        (
            "kill",
            "stop",
            "pause",
            "isolate",
            "cut",
            "slow",
            "lose",
            "freeze",
            "move",
            "elect",
            "reassign",
            "controller",
        ),
        weights=(4, 2, 3, 3, 3, 1, 1, 1, 3, 1, 2, 1),
    )[0]
    match kind:
        case "kill" | "stop":
            return [Event(begin, kind, (node,)), Event(end, "start", (node,))]
        case "pause":
            return [Event(begin, "pause", (node,)), Event(end, "resume", (node,))]
        case "isolate" | "freeze":
            name = f"{kind}-{begin:.3f}"
            return [Event(begin, "fault", (name, kind, ("node", node))), Event(end, "clear", (name,))]
        case "cut":
            name = f"cut-{begin:.3f}"
            options = (("from", first), ("to", second), ("one_way", random.random() < 0.5))
            return [Event(begin, "fault", (name, "cut", *options)), Event(end, "clear", (name,))]
        case "slow":
            name = f"slow-{begin:.3f}"
            options = (("from", first), ("to", second), ("delay_ms", random.choice((5, 50, 700))))
            return [Event(begin, "fault", (name, "slow", *options)), Event(end, "clear", (name,))]
        case "lose":
            name = f"lose-{begin:.3f}"
            options = (("from", first), ("to", second), ("next", random.randint(1, 3)))
            return [Event(begin, "fault", (name, "lose", *options)), Event(end, "clear", (name,))]
        case "move":
            return [Event(begin, "move", (partition, node))]
        case "elect":
            return [Event(begin, "elect", ())]
        case "controller":
            return [Event(begin, "controller", (node,))]
        case _:
            replicas = tuple(random.sample(NODES, random.choice((2, 3, 3))))
            return [Event(begin, "reassign", (partition, replicas))]
