"""YAML with the line of every value. The only module that needs PyYAML; it is the extra `scenario`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from kcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a file: a scalar, or a list or a dict of entries."""

    value: Any
    line: int


def read_yaml(content: str, path: str) -> Entry:
    """Return the only document in a text. Raises `UsageError` if it is not YAML."""
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        return Entry(None, 1) if node is None else _entry(loader, node, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise UsageError(f"{path}:{line}: this is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: this is not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise UsageError(f"{path}: this is nested too deeply") from None


def _entry(loader: yaml.SafeLoader, node: yaml.Node, path: str) -> Entry:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return Entry([_entry(loader, each, path) for each in node.value], line)
    if not isinstance(node, yaml.MappingNode):
        return Entry(loader.construct_object(node), line)
    found: dict[str, Entry] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key in found:
            raise UsageError(f"{path}:{key_node.start_mark.line + 1}: `{key}` is given twice")
        found[key] = _entry(loader, value_node, path)
    return Entry(found, line)


class Lines:
    """Errors of one file, with their lines."""

    def __init__(self, path: str) -> None:
        self._path = path

    def error(self, entry: Entry, message: str, *, hint: str | None = None) -> UsageError:
        """Return an error about an entry."""
        return UsageError(f"{self._path}:{entry.line}: {message}", hint=hint)

    @contextmanager
    def at(self, entry: Entry) -> Iterator[None]:
        """Add the line of an entry to every `UsageError` inside."""
        try:
            yield
        except UsageError as error:
            raise self.error(entry, error.message, hint=error.hint) from error

    def mapping(self, entry: Entry, what: str, *, hint: str | None = None) -> dict[str, Entry]:
        """Return the entries of a mapping. Raises `UsageError`."""
        if not isinstance(entry.value, dict):
            raise self.error(entry, f"{what} is a mapping of names to values", hint=hint)
        return entry.value

    def sequence(self, entry: Entry, what: str) -> list[Entry]:
        """Return the entries of a list. Raises `UsageError`."""
        if not isinstance(entry.value, list):
            raise self.error(entry, f"{what} is a list")
        return entry.value
