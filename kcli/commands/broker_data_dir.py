"""The option by which commands name a broker process: the directory of its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcli.commands.broker_start import DATA_DIR_VARIABLE
from kcli.commands.broker_start import DEFAULT_DATA_DIR as DEFAULT_DATA_DIR

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", metavar="DIR", envvar=DATA_DIR_VARIABLE, help="Directory of the logs of all nodes"
    ),
]
