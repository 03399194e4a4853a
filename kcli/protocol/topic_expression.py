"""TopicExpression: matches names of topics against an RE2 expression, in time linear in the name.

The expression becomes a program of steps (Thompson's construction); a state is the set of steps that a name
may have reached. States and transitions are computed when first needed and cached, so most characters cost
one look-up; characters that no step distinguishes count as one. Unlike `re`, which backtracks, no expression
takes exponential time: one event loop serves all clients.

    characters      go to the next step if the character is one of these
    position        go on if this position in the name fits
    split a, b      go on at both
    match           the name matches if it ends here
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.protocol.re2 import (
    ALPHABET,
    OTHER,
    WORD,
    Characters,
    Choice,
    InvalidExpression,
    Node,
    Position,
    Repeat,
    Sequence,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 10_000
"""Longer texts are refused before they are parsed."""

MOST_STEPS = 10_000
"""Longer programs are refused: repetitions are copied."""

MOST_STEPS_LOOKED_AT = 100_000
"""The steps that one event may spend on matching, about 25 ms; most expressions take a hundredth."""

MOST_STEPS_OF_A_COMMAND = 20 * MOST_STEPS_LOOKED_AT
"""The steps that a command may spend on one expression and all topics, about half a second."""

REMEMBERED = 5_000
"""The cached transitions of one expression; when it is full, the cache starts anew."""

_BIT = {character: 1 << index for index, character in enumerate(ALPHABET)}


@dataclass(slots=True)
class _Split:
    """Both ways are open; a jump has the same way twice."""

    first: int = 0
    second: int = 0


_MATCH = None
_Step = Characters | Position | _Split | None


class TakesTooLong(InvalidExpression):
    """Matching exceeded the steps of one event; computed states stay cached."""


class Effort:
    """The steps that one event may still compute, because one event loop serves all clients."""

    def __init__(self, steps: int = MOST_STEPS_LOOKED_AT) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Subtract steps; raise `TakesTooLong` when none are left."""
        if self.left < 0:
            raise TakesTooLong("it takes too many steps to match")
        self.left -= steps


class _State:
    """The steps that a name may have reached, before conditions are checked, and the last character's kind.

    `last` is "" at the beginning, "w" after a word character, else "-". `following` caches the next states by
    character, `ends` whether the name matches if it ends here.
    """

    __slots__ = ("ends", "following", "last", "steps")

    def __init__(self, steps: frozenset[int], last: str) -> None:
        self.steps = steps
        self.last = last
        self.following: dict[str, _State] = {}
        self.ends: bool | None = None


class TopicExpression:
    """A compiled expression that matches whole names."""

    def __init__(self, text: str, effort: Effort | None = None) -> None:
        """Raise `InvalidExpression` if RE2 refuses the expression or it is too large.

        `effort` is for `fullmatch`.
        """
        if len(text) > LONGEST:
            raise InvalidExpression("the expression is too large")
        self._program: list[_Step] = []
        self._written = 0
        self._write(parse(text))
        self._program.append(_MATCH)
        self._alike = _alike(self._program)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._remembered = 0
        self._start = _State(frozenset({0}), "")
        self.text = text
        self.effort = effort or Effort(MOST_STEPS_OF_A_COMMAND)

    def matches(self, topic: str, effort: Effort) -> bool:
        """True if the whole name matches; raise `TakesTooLong` when the effort is spent."""
        state = self._start
        for character in topic.translate(self._alike):
            state = state.following.get(character) or self._advance(state, character, effort)
            if not state.steps:
                return False
        if state.ends is None:
            reachable = self._reachable(state, following="")
            effort.spend(len(reachable))
            state.ends = any(self._program[step] is _MATCH for step in reachable)
        return state.ends

    def fullmatch(self, topic: str) -> bool:
        """As `matches`; all names together may take the effort of this expression."""
        try:
            return self.matches(topic, self.effort)
        except TakesTooLong as error:
            raise TakesTooLong(f"`{self.text}` takes too many steps to match") from error

    def _advance(self, state: _State, character: str, effort: Effort) -> _State:
        bit = _BIT.get(character, OTHER)
        last = "w" if bit & WORD else "-"
        steps = set()
        reachable = self._reachable(state, following=last)
        effort.spend(len(reachable))
        for step in reachable:
            what = self._program[step]
            if isinstance(what, Characters) and what.bits & bit:
                steps.add(step + 1)
        if self._remembered >= REMEMBERED:
            self._states.clear()
            self._remembered = 0
            self._start = _State(self._start.steps, "")
        self._remembered += 1
        key = (frozenset(steps), last)
        following = self._states.get(key)
        if following is None:
            following = self._states[key] = _State(*key)
        state.following[character] = following
        return following

    def _reachable(self, state: _State, *, following: str) -> set[int]:
        """Return the steps that are reached without reading, at a position with these neighbours."""
        found: set[int] = set()
        pending = list(state.steps)
        while pending:
            step = pending.pop()
            if step in found:
                continue
            found.add(step)
            what = self._program[step]
            if isinstance(what, _Split):
                pending += (what.first, what.second)
            elif isinstance(what, Position) and _holds(what, state.last, following):
                pending.append(step + 1)
        return found

    def _write(self, node: Node) -> None:
        # Not only steps count: a part that matches nothing adds none, however often it is repeated.
        self._written += 1
        if self._written > 2 * MOST_STEPS:
            raise InvalidExpression("the expression is too large")
        match node:
            case Characters() | Position():
                self._emit(node)
            case Sequence():
                for part in node.parts:
                    self._write(part)
            case Choice():
                self._write_choice(node)
            case Repeat():
                self._write_repeat(node)

    def _write_choice(self, node: Choice) -> None:
        jumps = []
        for option in node.options[:-1]:
            split = self._split()
            self._write(option)
            jumps.append(self._split())
            split.second = len(self._program)
        self._write(node.options[-1])
        for jump in jumps:
            jump.first = jump.second = len(self._program)

    def _write_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._write(node.part)
        if node.most is None:
            start = len(self._program)
            split = self._split()
            self._write(node.part)
            back = self._split()
            back.first = back.second = start
            split.second = len(self._program)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._split())
            self._write(node.part)
        for split in splits:
            split.second = len(self._program)

    def _split(self) -> _Split:
        """Write a split whose first way is the next step."""
        split = _Split(len(self._program) + 1)
        self._emit(split)
        return split

    def _emit(self, step: _Step) -> None:
        if len(self._program) >= MOST_STEPS:
            raise InvalidExpression("the expression is too large")
        self._program.append(step)


def _alike(program: Iterable[_Step]) -> dict[int, str]:
    """Map each character to the first one that no step distinguishes from it.

    Without it, `.?` repeated a thousand times would be computed anew for every character.
    """
    masks = {step.bits for step in program if isinstance(step, Characters)} | {WORD}
    first: dict[tuple[bool, ...], str] = {}
    return {
        ord(character): first.setdefault(tuple(bool(bit & mask) for mask in masks), character)
        for character, bit in _BIT.items()
    }


def _holds(position: Position, last: str, following: str) -> bool:
    match position:
        case Position.BEGIN:
            return last == ""
        case Position.END:
            return following == ""
        case _:
            boundary = (last == "w") != (following == "w")
            return boundary == (position is Position.WORD_BOUNDARY)


@lru_cache(maxsize=256)
def expression(text: str) -> TopicExpression:
    """Return the compiled expression of a text, cached; raise `InvalidExpression`."""
    return TopicExpression(text)
