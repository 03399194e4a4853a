"""How much faster the decoders are than the plain one, and than each other, in CPU time of this run."""

from __future__ import annotations

import time

import pytest

from kcli.spark.columns.chunk import Chunk
from kcli.spark.columns.decode import decoder_named
from kcli.spark.reading import COLUMNS
from tests.spark.columns.chunks import Given, GivenBatch, encode

ROUNDS = 5
RECORDS = 120
BATCHES = 256
WANTED = COLUMNS[:-1]


@pytest.fixture(scope="module")
def chunk() -> Chunk:
    """About 4 MiB: records of 129 bytes in batches of 16 KB."""
    records = [Given(number, 1, b"%010d" % number, bytes(105), []) for number in range(RECORDS)]
    return encode([GivenBatch(1_700_000_000_000, False, records)] * BATCHES)


def seconds(name: str, chunk: Chunk) -> float:
    """Return the CPU time of the fastest round."""
    decoder = decoder_named(name)
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        decoder(chunk, WANTED)
        times.append(time.process_time() - begun)
    return min(times)


@pytest.mark.alone
def test_each_decoder_is_as_many_times_faster_as_it_is_to_be(chunk: Chunk) -> None:
    plain, vectorised, compiled = (seconds(name, chunk) for name in ("python", "numpy", "numba"))
    assert plain >= 5 * vectorised
    assert vectorised >= 2.5 * compiled
