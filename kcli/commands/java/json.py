"""JSON as Kafka's tools print it: the text of Jackson's `JsonNode.toString()`."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from math import isfinite

from kcli.commands.serdes import java_double

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)", re.DOTALL)


def java_json(value: object) -> str:
    """Return a document on one line, without blanks and with its fields in their order."""
    match value:
        case dict():
            return "{" + ",".join(f"{quoted(name)}:{java_json(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(java_json, value)) + "]"
        case str():
            return quoted(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value) if isfinite(value) else quoted(java_double(value))
        case _:
            return str(value)


def quoted(text: str) -> str:
    """Return a string in quotes; hexadecimal digits of escapes are in upper case."""
    shown = encode_basestring(text)
    if "\\u" not in shown:
        return shown
    return _ESCAPE.sub(lambda found: f"\\u{found[1].upper()}" if found[1] else found[0], shown)
