"""What a test leaves to chance is the same in every run; `KCLI_TEST_SEED=N` asks for other chances.

The code under test draws jitter and random choices, and trio the order in which it goes on with tasks. A
failure that one draw in a thousand brings is found by running with many seeds, not by running the suite once.
"""

from __future__ import annotations

import os
import random

from trio._core._run import _r as schedule  # pytest-trio seeds it as well: it has no public name

SEED = os.environ.get("KCLI_TEST_SEED", "0")


def sow(test: str) -> None:
    """Have the seed and a test's name decide what is drawn in this process from now on."""
    random.seed(f"{SEED} {test}")
    schedule.seed(f"{SEED} {test}")


def sow_workers() -> None:
    """Have the workers, and the programs that they start, order their sets of text by the seed as well."""
    os.environ.setdefault("PYTHONHASHSEED", str(random.Random(SEED).randrange(2**32)))
