"""Input files of commands: their text, and the JSON documents of Kafka's own tools.

A document is `{"version":1,"partitions":[…]}`, or the same with a list of another name; a version that is
missing is 1. All that is wrong with one is a `UsageError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kcli.errors import UsageError


def read_text(path: Path) -> str:
    """Return what an input file holds, without the byte order mark that editors of Windows begin it with."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`{path}` is not UTF-8: {error.reason}") from error


def parse_json(text: str, source: str, *, hint: str) -> object:
    """Return the document in a file's text; `source` names the file."""
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"`{source}` is nested too deeply", hint=hint) from None
    except ValueError as error:
        raise UsageError(f"`{source}` is not JSON: {error}", hint=hint) from error


def entries_of(document: object, source: str, *, field: str, hint: str) -> Sequence[object]:
    """Return the list in a document of Kafka's tools, which is not empty."""
    version = document.get("version", 1) if isinstance(document, dict) else 1
    if type(version) is not int or version != 1:
        raise UsageError(f"`{source}` has a version that is not known: {json.dumps(version)}", hint=hint)
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UsageError(f"`{source}` holds no list of `{field}`", hint=hint)
    if not entries:
        raise UsageError(f"`{source}` holds an empty list of `{field}`", hint=hint)
    return entries
