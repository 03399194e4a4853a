"""Words for people: counts, lists, sizes and lengths of time."""

from __future__ import annotations

from collections.abc import Iterable


def plural(noun: str, count: int) -> str:
    """Return a noun in the number that `count` needs: `batch`, `batches`, `entries`."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a count with its noun; `several` is an irregular plural."""
    return f"{count:,} {several if several and count != 1 else plural(noun, count)}"


def listed(words: Iterable[str], most: int = 5) -> str:
    """Return words with commas and an `and`; beyond `most`, the rest is a count."""
    found = list(words)
    if len(found) > most:
        found = [*found[:most], f"{len(found) - most:,} more"]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def ids_text(ids: Iterable[int] | None) -> str:
    """Return ids with commas, `N/A` if they are not known."""
    return "N/A" if ids is None else ",".join(map(str, ids))


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size: float) -> str:
    """Return a number of bytes as people read it; 1 kB is 1000 bytes."""
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def duration_text(seconds: float) -> str:
    """Return how long something took, with tenths of a second below ten seconds."""
    return f"{seconds:.1f}s" if seconds < 9.95 else time_text(seconds)


def time_text(seconds: float) -> str:
    """Return a length of time as people read it: 8s, 2m05s, 3h20m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
