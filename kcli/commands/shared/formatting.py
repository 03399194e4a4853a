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


TENTH_MS = 100
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def lag_text(duration_ms: int | None) -> str | None:
    """Return a length of time as people say it: 0s, 0.3s, 12s, 1m23s, 2h05m, 3d04h; None stays None."""
    if duration_ms is None:
        return None
    if duration_ms < 10 * SECOND_MS - TENTH_MS // 2:
        tenths = max(round(duration_ms / TENTH_MS), min(duration_ms, 1))
        return f"{tenths / 10:.1f}".removesuffix(".0") + "s"
    if duration_ms < MINUTE_MS - SECOND_MS // 2:
        return f"{round(duration_ms / SECOND_MS)}s"
    duration_ms = max(duration_ms, MINUTE_MS)
    if duration_ms < HOUR_MS:
        return f"{duration_ms // MINUTE_MS}m{duration_ms % MINUTE_MS // SECOND_MS:02d}s"
    if duration_ms < DAY_MS:
        return f"{duration_ms // HOUR_MS}h{duration_ms % HOUR_MS // MINUTE_MS:02d}m"
    return f"{duration_ms // DAY_MS}d{duration_ms % DAY_MS // HOUR_MS:02d}h"


def moment_text(at_ms: int) -> str:
    """Return a moment in UTC, to the second."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
