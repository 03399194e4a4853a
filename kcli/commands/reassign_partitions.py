"""`kcli reassign-partitions`: its verbs, a module for one or two of them each, in the order of the help."""

from __future__ import annotations

from kcli.commands.reassignment import cancel_command, execute_command, generate_command, verify_command
from kcli.commands.reassignment.options import app

__all__ = ["app", "cancel_command", "execute_command", "generate_command", "verify_command"]

VERBS = ("generate", "execute", "verify", "list", "cancel")

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
