"""Input files of commands: their text, and the JSON documents of Kafka's tools.

A document is `{"version":1,"partitions":[…]}`, or has a list of another name. A missing version is 1. Each
error is a `UsageError` that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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


class Entry(NamedTuple):
    """An entry of a list in the file `source`; `number` counts from 1. Errors name it and the field."""

    fields: Mapping[str, object]
    number: int
    source: str
    hint: str

    def name(self, field: str) -> str:
        """Return the field of a topic's name. Non-ASCII ones, such as lone surrogates, cannot exist."""
        value = self._present(field)
        if not isinstance(value, str):
            raise self.refused(f"`{field}` must be a name", value)
        if not value:
            raise self.refused(f"`{field}` is empty")
        if not value.isascii():
            raise UsageError(f"`{self.source}` names a topic that cannot exist: {json.dumps(value)}")
        return value

    def number_of(self, field: str) -> int:
        """Return a field that must be a number; its range is the caller's affair."""
        value = self._present(field)
        if type(value) is not int:
            raise self.refused(f"`{field}` must be a number", value)
        return value

    def list_of(self, field: str) -> list[object]:
        value = self._present(field)
        if not isinstance(value, list):
            raise self.refused(f"`{field}` must be a list", value)
        return value

    def refused(self, problem: str, *value: object) -> UsageError:
        """Return the error of this entry, which may show the wrong value."""
        shown = "".join(f", not {json.dumps(each)}" for each in value)
        return UsageError(f"`{self.source}`, entry {self.number}: {problem}{shown}", hint=self.hint)

    def _present(self, field: str) -> object:
        if field not in self.fields:
            raise self.refused(f"`{field}` is missing")
        return self.fields[field]


def entries_of(document: object, source: str, *, field: str, hint: str) -> Sequence[Entry]:
    """Return the list `field` of a document; it must not be empty, and its entries must be objects."""
    version = document.get("version", 1) if isinstance(document, dict) else 1
    if type(version) is not int or version != 1:
        raise UsageError(f"`{source}` has an unknown version: {json.dumps(version)}", hint=hint)
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise UsageError(f"`{source}` holds no list of `{field}`", hint=hint)
    if not entries:
        raise UsageError(f"`{source}` holds an empty list of `{field}`", hint=hint)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise Entry({}, number, source, hint).refused("it must be an object", entry)
    return [Entry(entry, number, source, hint) for number, entry in enumerate(entries, 1)]
