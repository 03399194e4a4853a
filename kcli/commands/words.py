"""Words for people: how many there are of something, and lists of a few."""

from __future__ import annotations

from collections.abc import Iterable


def plural(noun: str, count: int) -> str:
    """Return a noun as it is for so many: `batch`, `batches`, `entries`."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number of things; `several` is what they are called where the noun does not tell."""
    return f"{count:,} {several if several and count != 1 else plural(noun, count)}"


def listed(words: Iterable[str], most: int = 5) -> str:
    """Return words with commas and an `and`; of too many the rest is counted."""
    found = list(words)
    if len(found) > most:
        found = [*found[:most], f"{len(found) - most:,} more"]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
