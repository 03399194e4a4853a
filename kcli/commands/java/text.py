"""Columns as Java's `printf` fills them: the length of a string is that of its UTF-16 units."""

from __future__ import annotations

from collections.abc import Iterable


def java_length(text: str) -> int:
    """Return `String.length()`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def widest(least: int, texts: Iterable[str]) -> int:
    """Return the length of the longest text, or `least` if that is more."""
    return max((least, *map(java_length, texts)))


def columns(widths: Iterable[int], cells: Iterable[object]) -> str:
    """Return cells in one line with a blank between, each filled to its width; 0 fills nothing.

    What is missing is a dash, as in Kafka's tools.
    """
    texts = ("-" if cell is None else str(cell) for cell in cells)
    return " ".join(
        text + " " * (width - java_length(text)) for width, text in zip(widths, texts, strict=True)
    )
