"""Text that cannot control a terminal: control and format characters are shown as escapes.

Keys, values, names, client ids and messages of brokers come from strangers. A terminal obeys control
characters in them (C0, DEL and C1, and so bytes that are not UTF-8), and reorders or hides what stands beside
format characters such as U+202E. They are shown as Python writes them: `\\x1b`, `\\u202e`, `\\n`.
"""

from __future__ import annotations

SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
JOINERS = "\u200c\u200d"
"""Words of some scripts need these two format characters, which do nothing but join letters or part them."""

UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Control, format and surrogate characters, and the separators of lines and paragraphs."""


def escaped(text: str, *, keep: str = "") -> str:
    """Return a text with an escape in place of each character that is unsafe, but for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(escape(each) if is_unsafe(each) and each not in keep else each for each in text)


def escaped_bytes(data: bytes) -> bytes:
    """Return lines of UTF-8 with escapes; a byte that is not UTF-8 is escaped, line feeds and tabs stay."""
    if data.isascii() and data.translate(None, b"\n\t").decode("ascii").isprintable():
        return data
    return escaped(data.decode("utf-8", "surrogateescape"), keep="\n\t").encode()


def escaped_json(text: str) -> str:
    """Return JSON of the same meaning, with the escapes of JSON."""
    if text.isprintable():
        return text
    return "".join(json_escape(each) if is_unsafe(each) and each != "\n" else each for each in text)


def escaped_json_bytes(data: bytes) -> bytes:
    """Return `escaped_json` of UTF-8."""
    return escaped_json(data.decode("utf-8", "surrogateescape")).encode()


def is_safe(text: str) -> bool:
    """Tell whether a text is the same on a terminal as in a file."""
    return text.isprintable() or not any(map(is_unsafe, text))


def is_unsafe(character: str) -> bool:
    if character.isprintable() or character in JOINERS:
        return False
    from unicodedata import category

    return category(character) in UNSAFE_CATEGORIES


def escape(character: str) -> str:
    """Return an escape; a surrogate that stands for a byte (PEP 383) is that byte."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    if short := SHORT.get(character):
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
