"""The option by which commands name a broker process: the directory of its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", metavar="DIR", envvar="KCLI_DATA_DIR", help="Directory of the logs of all nodes"
    ),
]

DEFAULT_DATA_DIR = Path("kcli-data")
