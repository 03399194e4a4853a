"""Asking before a command changes or destroys what an expression matches, not what a name says.

    choice = confirmation.choose(existing, "orders.*")
    if choice.is_expression and not confirmation.dry_run:
        confirmation.confirm("delete", choice.names)

A name that exists as written is that thing alone. What can be no name, or comes with `--regex`, is an
expression: a terminal is asked, elsewhere `--yes` is needed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.errors import Interrupted, KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_SHOWN = 20
"""More names than these are only counted."""


class Choice(NamedTuple):
    """The existing names that an argument means, those that do not exist, and whether it is an expression."""

    names: Sequence[str]
    missing: Sequence[str]
    is_expression: bool


class Confirmation(NamedTuple):
    """The options of a command that may act on many topics."""

    regex: Annotated[
        bool,
        typer.Option(
            "--regex",
            help="TOPIC is a regular expression even if it can be a name: `a.b` matches `a-b`, too",
        ),
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before acting on what an expression matches")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the topics that it means")] = False

    def choose(self, existing: Collection[str], wanted: str) -> Choice:
        """Return the topics that `wanted` means: a name, names with commas, or an expression."""
        from kcli.commands.shared.topic_filter import plain_names, select_topics

        if wanted in existing and not self.regex:
            return Choice([wanted], (), is_expression=False)
        names = None if self.regex else plain_names(wanted)
        if names is None:
            return Choice(select_topics(existing, wanted), (), is_expression=True)
        return Choice(
            [name for name in names if name in existing],
            [name for name in names if name not in existing],
            is_expression=False,
        )

    def confirm(self, verb: str, names: Sequence[str], expression: str) -> None:
        """Ask whether to `verb` these topics; raise for a no, and where nobody can be asked."""
        from kcli.commands.shared.formatting import counted
        from kcli.commands.shared.output import note

        if self.yes or not names:
            return
        topics = counted(len(names), "topic")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                f"`{expression}` is an expression, it matches {topics}: nobody can be asked here",
                hint=f"`--dry-run` shows them, `--yes` {verb}s them",
            )
        for name in names[:MOST_SHOWN]:
            note(f"  {name}")
        if len(names) > MOST_SHOWN:
            note(f"  and {len(names) - MOST_SHOWN} more")
        if not answered_yes(f"{verb} {topics}?"):
            raise KcliError(f"nothing was done: {topics} of `{expression}` kept as they are")


def answered_yes(question: str) -> bool:
    """Ask on the terminal; raise `Interrupted` at the end of its input."""
    from kcli.commands.shared.output import note

    note(f"{question} [y/N] ", end="")
    answer = sys.stdin.readline()
    if not answer:
        raise Interrupted("interrupted")
    return answer.strip().lower() in ("y", "yes")
