"""Asking before entries are removed that nobody has named exactly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kcli.commands.acls.results import entry_text, resource_text
from kcli.commands.shared.confirmation import MOST_SHOWN, answered_yes
from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import note
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.security.acl import AclEntry


def confirm(entries: Sequence[AclEntry], *, yes: bool) -> None:
    """Ask whether to remove entries; raise for a no, and where nobody can be asked."""
    if yes:
        return
    found = counted(len(entries), "entry", "entries")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"this matches {found}: nobody can be asked here",
            hint="`--dry-run` shows them, `--yes` removes them",
        )
    for entry in entries[:MOST_SHOWN]:
        note(f"  {resource_text(entry[:3])} {entry_text(entry)}")
    if len(entries) > MOST_SHOWN:
        note(f"  and {len(entries) - MOST_SHOWN} more")
    if not answered_yes(f"remove {found}?"):
        raise KcliError(f"nothing was removed: {found} kept as they are")
