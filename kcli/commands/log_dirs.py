"""`kcli log-dirs`: its verbs, a module for each, in the order of the help."""

from __future__ import annotations

from kcli.commands import log_dirs_describe, log_dirs_move
from kcli.commands.log_dirs_app import app

__all__ = ["app", "log_dirs_describe", "log_dirs_move"]
