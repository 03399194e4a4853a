"""What a regular expression is made of, once read. What only concerns captures has left no trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Position(Enum):
    """A condition on a place in the text."""

    BEGIN = "begin"
    END = "end"
    WORD_BOUNDARY = "word boundary"
    NO_WORD_BOUNDARY = "no word boundary"


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set (`topic_characters`)."""

    bits: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; none at all matches nothing."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of these."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same again, from `least` to `most` times; None: any number."""

    part: Node
    least: int
    most: int | None


Node = Characters | Position | Sequence | Choice | Repeat
