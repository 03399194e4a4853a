"""The bytes of committed files: held against their checksums, or read as pages where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.repair import repair_export
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from tests.spark.export.exporting import export
from tests.spark.export.fake_source import FakeSource
from tests.spark.export.test_verification import (
    FIRST,
    HARMS,
    lose_identity,
    problems,
    replace_by_neighbour,
    swap,
)
from tests.support.spark_exports import state_of


def forget_checksums(target: Path) -> None:
    """What an earlier version wrote has none."""
    commit = state_of(target) / "log/0000000001.commit.json"
    document = json.loads(commit.read_text())
    for file in document["files"]:
        del file["crc32c"]
    commit.write_text(json.dumps(document, separators=(",", ":")))


def ruin_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    data[place : place + 16] = b"\xff" * 16  # its header
    path.write_bytes(data)


HARMS_WITHOUT_CHECKSUM = HARMS | {
    "no Parquet": (swap, "not a whole Parquet file"),
    "a flipped bit": (ruin_a_page, "cannot be read: "),
    "another's": (replace_by_neighbour, "it holds offsets 100 to 200 of orders-0"),
}


@pytest.mark.parametrize("harm", HARMS_WITHOUT_CHECKSUM)
def test_pages_are_read_of_files_without_a_checksum(harm: str, tmp_path: Path) -> None:
    export(FakeSource.of(200), tmp_path)
    forget_checksums(tmp_path)
    verified = verify_export(LocalTarget(str(tmp_path)))
    assert verified.problems == ()
    assert verified.notes == ("files without a checksum, of which changed values may go unnoticed: 2",)
    do, reason = HARMS_WITHOUT_CHECKSUM[harm]
    do(tmp_path / FIRST)
    ((path, found),) = problems(tmp_path)
    assert path == FIRST
    assert reason in found
    assert "\n" not in found


def test_a_flipped_bit_anywhere_in_a_file_is_found(tmp_path: Path) -> None:
    export(FakeSource.of(3), tmp_path)
    (path,) = tmp_path.rglob("*.parquet")
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        assert len(problems(tmp_path)) == 1, place
    path.write_bytes(whole)
    assert problems(tmp_path) == []


def test_a_repair_keeps_the_checksums_of_commits_that_are_left(tmp_path: Path) -> None:
    export(FakeSource.of(200), tmp_path)
    before = list_export(LocalTarget(str(tmp_path))).files
    lose_identity(tmp_path)
    repair_export(LocalTarget(str(tmp_path)))
    after = list_export(LocalTarget(str(tmp_path))).files
    assert [file.crc32c for file in before] == [file.crc32c for file in after]
    assert None not in {file.crc32c for file in after}
