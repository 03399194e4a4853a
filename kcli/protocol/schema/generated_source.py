"""GeneratedSource: the Python source of one function while it is being written, and the names it uses."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class GeneratedSource(AbstractContextManager[None]):
    """A function's body, line by line; `names` are its globals. As a context manager it indents lines."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._depth = 1
        self._lines: list[str] = []
        self._serial = 0
        self._constants: dict[tuple[str, ...], str] = {}

    def emit(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def block(self, line: str) -> GeneratedSource:
        """Write a line; the lines written in a `with` statement of the result are indented below it."""
        self.emit(line)
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1

    def fresh_name(self, prefix: str) -> str:
        """Return the name of an unused variable."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, key: tuple[str, ...], value: Callable[[], object]) -> str:
        """Return the global name of a value, made once per key."""
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"_{key[0]}{len(self._constants)}"
            self.names[name] = value()
        return name

    def compile(self, signature: str, what: str) -> Callable[..., Any]:
        """Return the function with this signature, such as `encode(o)`; tracebacks call it `what`."""
        source = f"def {signature}:\n" + "\n".join(self._lines)
        exec(compile(source, f"<{what}>", "exec"), self.names)
        function: Callable[..., Any] = self.names[signature.partition("(")[0]]
        return function
