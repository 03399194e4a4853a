"""The commands: a package for each noun, imported only when the command line names it.

Its module exposes `app`, a Typer application: a named one is a group of verbs (`kcli topics create`), an
unnamed one holds a single command (`kcli produce`). At module level, these modules import only Typer and
shared modules; the bodies of commands import the client, trio and the codecs, so that help is fast.
"""
