"""Bytes as text, as Java reads them: `new String(bytes, "UTF-8")`.

Where bytes are no UTF-8, Java and Python put the same replacement characters, but for a surrogate that stands
for itself in three bytes: Java replaces it whole, or as much of it as is there, Python each of its bytes.
"""

from __future__ import annotations

import codecs
import re

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_HANDLER = "kcli.java"


def java_utf8(data: bytes) -> str:
    """Return the text of bytes, whatever they hold."""
    return data.decode("utf-8", _HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    surrogate = _SURROGATE.match(error.object, error.start)
    return _REPLACEMENT, error.end if surrogate is None else surrogate.end()


codecs.register_error(_HANDLER, _replace)
