"""The application `kcli log-dirs`."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="log-dirs",
    help="Describe the log directories of brokers, and move replicas between them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
