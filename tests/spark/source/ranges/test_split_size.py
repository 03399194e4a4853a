"""How large splits are by themselves."""

from __future__ import annotations

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.spark.source.ranges.division import split_bytes
from kcli.spark.source.source import SplitLimits

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("total_mib", "limits", "codec", "expected_mib"),
    [
        pytest.param(10, SplitLimits(task_slots=2), Codec.NONE, 16, id="small topics are not cut"),
        pytest.param(600, SplitLimits(task_slots=2), Codec.NONE, 100, id="three for each slot"),
        pytest.param(90_000, SplitLimits(task_slots=2), Codec.NONE, 1024, id="up to a file's worth"),
        pytest.param(
            90_000, SplitLimits(target_file_bytes=100 * MIB), Codec.LZ4, 190, id="of a compressed topic less"
        ),
        pytest.param(90_000, SplitLimits(split_bytes=7 * MIB), Codec.NONE, 7, id="as asked for"),
    ],
)
def test_splits_keep_slots_busy_and_files_full(
    total_mib: int, limits: SplitLimits, codec: Codec, expected_mib: int
) -> None:
    assert split_bytes(total_mib * MIB, limits, codec) == expected_mib * MIB
