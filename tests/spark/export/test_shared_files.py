"""Small partitions of a topic share files where the layout does not keep them apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.log.plan import PlannedTask
from kcli.spark.export.log.receipt import Receipt, SplitRead, WrittenFile
from kcli.spark.export.options import WriteOptions
from kcli.spark.export.repair import repair_export
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.importing.stored_records import PartitionRows, StoredFile, by_partition, check_stored
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.ranges.offset_specs import OnReset, RangeRules
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import BatchMark, OffsetInterval, Split
from tests.spark.export.exporting import InlineEngine, export, offsets_in, options
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.support.spark_exports import state_of

P1 = TopicPartition("orders", 1)

HOUR_US = 3_600_000_000
HOURLY = WriteOptions(layout=Layout(("date", "hour")))


def hourly(*lengths: int, **fields: object) -> FakeSource:
    """Return partitions with one row an hour."""
    return FakeSource.of(*lengths, fake_reader=FakeReader(step_us=HOUR_US, **fields))  # type: ignore[arg-type]


def test_partitions_with_a_row_an_hour_make_one_file_an_hour(tmp_path: Path) -> None:
    source = hourly(*[20] * 200)
    summary = export(source, tmp_path, options(write=HOURLY))
    directories = {file.parent for file in tmp_path.rglob("*.parquet")}
    assert summary.files == len(list(tmp_path.rglob("*.parquet"))) == len(directories) == 20
    assert offsets_in(tmp_path) == {("orders", index): list(range(20)) for index in range(200)}
    assert {(one.rows, one.files) for one in summary.partitions} == {(20, 20)}
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


TWO_GROUPS = SplitLimits(max_records=200)
"""Of eight partitions with fifty rows each."""


def test_groups_are_as_large_as_a_split_may_be(tmp_path: Path) -> None:
    source = hourly(*[50] * 8)
    summary = export(source, tmp_path, options(write=HOURLY, limits=TWO_GROUPS))
    assert summary.files == 2 * 50
    names = {file.name.partition("-0000")[0] for file in tmp_path.rglob("*.parquet")}
    assert names == {"part-orders-0to3", "part-orders-4to7"}


@pytest.mark.parametrize(
    ("layout", "limits"),
    [(("topic", "partition", "date"), SplitLimits()), (("date",), SplitLimits(shares_files=False))],
)
def test_who_does_not_share(layout: tuple[str, ...], limits: SplitLimits, tmp_path: Path) -> None:
    write = WriteOptions(layout=Layout(layout))
    summary = export(hourly(20, 20), tmp_path, options(write=write, limits=limits))
    assert summary.files == 2
    assert {len(file.parts) for file in list_export(LocalTarget(str(tmp_path))).files} == {0}


def test_topics_and_parts_of_a_partition_have_files_of_their_own(tmp_path: Path) -> None:
    ends = {("a", 0): 30, ("a", 1): 120, ("a", 2): 30, ("b", 0): 30}
    source = FakeSource({TopicPartition(*one): end for one, end in ends.items()})
    export(source, tmp_path, options("a", "b", write=WriteOptions(layout=Layout(()))))
    found = sorted(file.name.rpartition("-0000")[0] for file in tmp_path.glob("*.parquet"))
    assert [name.split("-0000")[0] for name in found] == ["part-a-0to2", "part-a-1", "part-a-1", "part-b-0"]
    assert offsets_in(tmp_path) == {one: list(range(end)) for one, end in source.ends.items()}


def rows_by_partition(target: Path) -> dict[int, list[int]]:
    """Return the offsets that an import reads, in its order."""
    files = list_export(LocalTarget(str(target))).files
    parts = by_partition(part for file in files for part in StoredFile.parts_of(file))

    def opened(file: StoredFile) -> pq.ParquetFile:
        return pq.ParquetFile(target / file.path)

    check_stored(LocalTarget(str(target)), (file for found in parts.values() for file in found))
    return {
        partition: [
            int((value or b"").removeprefix(b"value "))
            for rows in PartitionRows(found, opened).batches(0)
            for value in rows.values
        ]
        for partition, found in parts.items()
    }


def test_an_import_finds_the_rows_of_each_partition(tmp_path: Path) -> None:
    source = hourly(*[50] * 8)
    export(source, tmp_path, options(write=HOURLY, limits=TWO_GROUPS))
    source.grow(TopicPartition("orders", 3), 70)
    source.grow(TopicPartition("orders", 4), 60)
    export(source, tmp_path, options(write=HOURLY))
    expected = {index: list(range({3: 70, 4: 60}.get(index, 50))) for index in range(8)}
    assert rows_by_partition(tmp_path) == expected


def old_files(target: Path) -> list[Path]:
    return sorted((state_of(target) / "old-logs").rglob("*.parquet"))


def parts(file: Path) -> list[int]:
    said = pq.read_metadata(file).metadata[b"kcli.parts"]
    return [one["partition"] for one in json.loads(said)]


@pytest.mark.parametrize("on_reset", [OnReset.EARLIEST, OnReset.REPLACE])
def test_rows_of_a_log_that_is_gone_leave_the_files_that_they_share(
    on_reset: OnReset, tmp_path: Path
) -> None:
    source = hourly(30, 30, 30)
    export(source, tmp_path, options(write=HOURLY))
    source.grow(P1, 35)
    source.diverges = {P1: 10}
    afresh = options(write=HOURLY, rules=RangeRules(on_reset=on_reset))
    summary = export(source, tmp_path, afresh)
    assert [one.partition for one in summary.resets] == [1]
    assert [(one.partition, one.rows) for one in summary.partitions if one.rows] == [(1, 35)]
    assert summary.files == 35
    expected = {
        ("orders", 0): list(range(30)),
        ("orders", 1): list(range(35)),
        ("orders", 2): list(range(30)),
    }
    assert offsets_in(tmp_path) == expected
    on_disk = sum(pq.read_metadata(file).num_rows for file in tmp_path.rglob("*.parquet"))
    assert on_disk == 95
    kept = [list(parts(file)) for file in old_files(tmp_path)]
    assert kept == ([[0, 1, 2]] * 30 if on_reset is OnReset.EARLIEST else [])
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()
    # A reset of another partition, whose rows are in the copies; what the first one retired stays.
    source.diverges = {TopicPartition("orders", 0): 10}
    export(source, tmp_path, afresh)
    assert offsets_in(tmp_path) == expected
    assert sum(pq.read_metadata(file).num_rows for file in tmp_path.rglob("*.parquet")) == 95
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()
    # The footers of the copies say enough to make the log again.
    shutil.rmtree(state_of(tmp_path) / "log")
    repaired = repair_export(LocalTarget(str(tmp_path)))
    assert repaired.next_offsets == {"orders": {0: 30, 1: 35, 2: 30}}
    assert offsets_in(tmp_path) == expected


def test_a_lost_log_is_made_again_from_shared_files(tmp_path: Path) -> None:
    source = hourly(*[50] * 8)
    export(source, tmp_path, options(write=HOURLY, limits=TWO_GROUPS))
    before = list_export(LocalTarget(str(tmp_path))).files
    shutil.rmtree(state_of(tmp_path) / "log")
    repaired = repair_export(LocalTarget(str(tmp_path)))
    assert (repaired.files, repaired.rows, repaired.removed) == (100, 400, ())
    assert repaired.next_offsets == {"orders": dict.fromkeys(range(8), 50)}
    assert [one.parts for one in list_export(LocalTarget(str(tmp_path))).files] == [
        one.parts for one in before
    ]
    source.grow(P1, 60)
    export(source, tmp_path, options(write=HOURLY))
    assert offsets_in(tmp_path)[P1] == list(range(60))
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_what_is_gone_of_a_group_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    source = hourly(30, 30, 30)

    class Down(InlineEngine):
        def run(self, *_: object) -> None:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        export(source, tmp_path, options(write=HOURLY), engine=Down())
    source.begins = {P1: 30, TopicPartition("orders", 2): 20}
    with pytest.raises(DataLoss, match="offsets 0 to 29 of orders-1 are gone"):
        export(source, tmp_path, options(write=HOURLY))
    tolerant = options(write=HOURLY, rules=RangeRules(fail_on_data_loss=False))
    gaps = export(source, tmp_path, tolerant).gaps
    assert [(one.partition, one.start, one.end) for one in gaps] == [(1, 0, 30), (2, 0, 20)]
    assert offsets_in(tmp_path) == {("orders", 0): list(range(30)), ("orders", 2): list(range(20, 30))}
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_receipts_and_plans_of_earlier_versions_are_read() -> None:
    file = WrittenFile(
        path="f.parquet", temporary=None, topic="t", partition=3, start=0, end=9, rows=9, size_bytes=99
    )
    assert "parts" not in file.to_json()
    old = {
        "plan": 1, "plan_id": "p", "index": 0, "attempt": "a", "topic": "t", "partition": 3, "start": 0,
        "end": 9, "files": [file.to_json()], "dead_letters": [], "counters": {"rows": 9},
        "missing": [[2, 4]], "marks": [[8, 1]],
    }  # fmt: skip
    receipt = Receipt.from_json(old)
    read = SplitRead(
        topic="t", partition=3, start=0, end=9, missing=(OffsetInterval(2, 4),), marks=(BatchMark(8, 1),)
    )
    assert (receipt.reads, receipt.files) == ((read,), (file,))
    assert Receipt.from_json(json.loads(json.dumps(receipt.to_json()))) == receipt
    split = Split("t", 3, 0, 9)
    planned = PlannedTask.from_json({"index": 0, "stem": "part", "split": split.to_json()})
    assert planned == PlannedTask(index=0, stem="part", splits=(split,))
    shared = PlannedTask(index=1, stem="part", splits=(split, Split("t", 4, 0, 5)))
    assert PlannedTask.from_json(json.loads(json.dumps(shared.to_json()))) == shared
