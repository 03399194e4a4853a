"""The commands: one module per noun, imported only when the command line names it.

A module exposes `app`, a Typer application: a named one is a group of verbs (`kcli topics create`), an
unnamed one holds a single command (`kcli produce`). At module level these import Typer and the shared
options only; the client, trio and the codecs are imported inside a command's body, so that help is fast.
"""

from __future__ import annotations
