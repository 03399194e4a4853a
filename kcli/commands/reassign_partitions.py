"""`kcli reassign-partitions`: its verbs, a module for one or two of them each, in the order of the help."""

from __future__ import annotations

from kcli.commands import reassign_cancel, reassign_execute, reassign_generate, reassign_verify
from kcli.commands.reassignment_options import app

__all__ = ["app", "reassign_cancel", "reassign_execute", "reassign_generate", "reassign_verify"]

VERBS = ("generate", "execute", "verify", "list", "cancel")

app.registered_commands.sort(key=lambda verb: VERBS.index(verb.name or ""))
