"""CPU time of the commands that people type most, and of a completion, against `import typer, trio`.

They ask a broker with one topic and one group. The commands run as the installed program does, and their
output goes to a pipe.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks.measure import alternate_rounds, child_cpu_seconds, paired_ratio
from tests.benchmarks.table import Gate, Table
from tests.support.kcli_broker import KcliBroker

BASE = "python -c 'import typer, trio'"
PROGRAM = (sys.executable, "-m", "kcli")
TOPIC, GROUP = "orders", "shipping"
COMMANDS = {
    "topics list": ("topics", "list"),
    "topics describe orders": ("topics", "describe", TOPIC),
    "consumer-groups list": ("consumer-groups", "list"),
    "get-offsets orders": ("get-offsets", TOPIC),
}
COMPLETION = "completion of `kcli topics describe o`"
MOST = 1.35
ROUNDS = 15


def run() -> list[Table]:
    """Run each of them in turn."""
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as name:
        broker = KcliBroker(Path(name))
        broker.start()
        try:
            address = ("-b", broker.bootstrap)
            fill(address)
            subjects = {BASE: partial(child_cpu_seconds, (sys.executable, "-c", "import typer, trio"))}
            for label, words in COMMANDS.items():
                subjects[label] = partial(child_cpu_seconds, (*PROGRAM, *words, *address))
            subjects[COMPLETION] = partial(completion_cpu_seconds, broker.bootstrap)
            found = alternate_rounds(subjects, rounds=ROUNDS)
        finally:
            broker.stop()
    table = Table("commands", ("", "CPU s", "/ import typer, trio"))
    for label, seconds in found.items():
        share = paired_ratio(seconds, found[BASE])
        table.add(label, median(seconds), share)
        if label != BASE:
            table.gates.append(Gate(f"{label} / import typer, trio", share, MOST))
    return [table]


def fill(address: tuple[str, str]) -> None:
    """Make a topic, and a group that has read from it."""
    child_cpu_seconds((*PROGRAM, "topics", "create", TOPIC, "--partitions", "3", *address))
    subprocess.run((*PROGRAM, "produce", TOPIC, *address), input=b"book\npen\n", check=True)
    reading = ("consume", TOPIC, "--group", GROUP, "--from-beginning", "--max-messages", "1")
    child_cpu_seconds((*PROGRAM, *reading, *address))


def completion_cpu_seconds(bootstrap: str) -> float:
    """Complete the name of the topic as bash does; return the CPU time that it took."""
    asked = {
        "_KCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "kcli topics describe o",
        "COMP_CWORD": "3",
        "KCLI_BOOTSTRAP_SERVER": bootstrap,
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(PROGRAM, env=os.environ | asked, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.stdout.split() != [TOPIC]:
        raise RuntimeError(f"completed to {done.stdout!r}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
