"""CPU time of `kcli --help` and of a command's help, against `import typer`."""

from __future__ import annotations

import sys
from functools import partial

from tests.benchmarks.measure import alternate, child_cpu_seconds
from tests.benchmarks.table import Gate, Table

COMMANDS = {
    "python -c 'import typer'": (sys.executable, "-c", "import typer"),
    "kcli --help": (sys.executable, "-m", "kcli", "--help"),
    "kcli topics create --help": (sys.executable, "-m", "kcli", "topics", "create", "--help"),
}
ROUNDS = 10


def run() -> list[Table]:
    """Run each of them in turn."""
    subjects = {label: partial(child_cpu_seconds, command) for label, command in COMMANDS.items()}
    found = alternate(subjects, rounds=ROUNDS)
    base = found["python -c 'import typer'"]
    table = Table("help", ("", "CPU s", "/ import typer"))
    for label, seconds in found.items():
        table.add(label, seconds, seconds / base)
    table.gates.append(Gate("kcli --help / import typer", found["kcli --help"] / base, 3.5))
    return [table]
