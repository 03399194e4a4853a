"""Input files of commands: their text, and the JSON documents of Kafka's tools.

A document is `{"version":1,"partitions":[…]}`, or has a list of another name. A missing version is 1. Each
error is a `UsageError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kcli.errors import UsageError


def read_text(path: Path) -> str:
    """Return the text of an input file without the byte order mark of Windows editors."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`{path}` is not UTF-8: {error.reason}") from error


def parse_json(text: str, source: str, *, hint: str) -> object:
    """Parse the text of the file `source`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"`{source}` is nested too deeply", hint=hint) from None
    except ValueError as error:
        raise UsageError(f"`{source}` is not JSON: {error}", hint=hint) from error


def entries_of(document: object, source: str, *, field: str, hint: str) -> Sequence[object]:
    """Return the list `field` of a document; it must not be empty."""
    version = document.get("version", 1) if isinstance(document, dict) else 1
    if type(version) is not int or version != 1:
        raise UsageError(f"`{source}` has an unknown version: {json.dumps(version)}", hint=hint)
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UsageError(f"`{source}` holds no list of `{field}`", hint=hint)
    if not entries:
        raise UsageError(f"`{source}` holds an empty list of `{field}`", hint=hint)
    return entries
