"""`kcli consumer-groups`: its verbs, a module for one or two of them each, in the order of the help."""

from __future__ import annotations

from kcli.commands.groups import (
    clone_command,
    delete_command,
    describe_command,
    list_command,
    members_command,
    regex_command,
    reset_command,
)
from kcli.commands.groups.options import app

__all__ = [
    "app",
    "clone_command",
    "delete_command",
    "describe_command",
    "list_command",
    "members_command",
    "regex_command",
    "reset_command",
]

VERBS = (
    "list",
    "describe",
    "reset-offsets",
    "delete",
    "delete-offsets",
    "members",
    "remove-members",
    "clone",
    "validate-regex",
)

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
