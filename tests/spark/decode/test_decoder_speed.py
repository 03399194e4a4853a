"""How much faster the decoders are than the plain one, and than each other, in CPU time of this run."""

from __future__ import annotations

import math
import time

import pytest

from kcli.spark.decode.chunk import Chunk
from kcli.spark.decode.decoders import decoder_named
from kcli.spark.split import COLUMNS
from tests.spark.decode.chunks import Given, GivenBatch, encode

ROUNDS = 5
TIMES = {"python": 1, "numpy": 8, "numba": 8}
"""How often each runs in a round: whoever takes a millisecond is disturbed for all of it, or not at all."""
RECORDS = 120
BATCHES = 256
WANTED = COLUMNS[:-1]


@pytest.fixture(scope="module")
def chunk() -> Chunk:
    """About 4 MiB: records of 129 bytes in batches of 16 KB."""
    records = [Given(number, 1, b"%010d" % number, bytes(105), []) for number in range(RECORDS)]
    return encode([GivenBatch(1_700_000_000_000, False, records)] * BATCHES)


def seconds(chunk: Chunk) -> dict[str, float]:
    """Return the CPU time that each decoder took at least; they take turns."""
    decoders = {name: decoder_named(name) for name in TIMES}
    least = dict.fromkeys(TIMES, math.inf)
    for name in [name for name, times in TIMES.items() for _ in range(times)] * ROUNDS:
        begun = time.process_time()
        decoders[name](chunk, WANTED)
        least[name] = min(least[name], time.process_time() - begun)
    return least


@pytest.mark.alone
def test_each_decoder_is_as_many_times_faster_as_it_is_to_be(chunk: Chunk) -> None:
    least = seconds(chunk)
    assert least["python"] >= 5 * least["numpy"], least
    assert least["numpy"] >= 2.5 * least["numba"], least
