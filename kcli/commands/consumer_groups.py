"""`kcli consumer-groups`: its verbs, a module for one or two of them each, in the order of the help."""

from __future__ import annotations

from kcli.commands import (
    consumer_groups_clone,
    consumer_groups_delete,
    consumer_groups_describe,
    consumer_groups_list,
    consumer_groups_members,
    consumer_groups_regex,
    consumer_groups_reset,
)
from kcli.commands.group_options import app

__all__ = [
    "app",
    "consumer_groups_clone",
    "consumer_groups_delete",
    "consumer_groups_describe",
    "consumer_groups_list",
    "consumer_groups_members",
    "consumer_groups_regex",
    "consumer_groups_reset",
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
