"""What a run exports: every offset once, what is new the next time, and what it says of that."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.log.commit import PartitionSummary
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.options import TargetMismatch, WriteOptions
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.source.ranges.offset_specs import AtTimestamp, Latest, RangeRules
from kcli.spark.split import COLUMNS, Reading
from tests.spark.export.exporting import (
    Watched,
    expected_row,
    export,
    files_in,
    offsets_in,
    offsets_on_disk,
    options,
)
from tests.spark.export.fake_source import EPOCH_US, FakeSource
from tests.support.spark_exports import state_of

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_every_offset_is_exported_once(tmp_path: Path) -> None:
    source = FakeSource.of(250, 90)
    summary = export(source, tmp_path / "lake")
    expected = {("orders", 0): list(range(250)), ("orders", 1): list(range(90))}
    assert offsets_in(tmp_path / "lake") == expected
    assert offsets_on_disk(tmp_path / "lake") == expected
    assert summary.counters.rows == 340
    assert summary.counters.bytes_read == 34_000
    assert summary.files == 4
    assert summary.committed_plans == (1,)
    assert summary.partitions == (
        PartitionSummary(topic="orders", partition=0, start=0, end=250, rows=250, files=3),
        PartitionSummary(topic="orders", partition=1, start=0, end=90, rows=90, files=1),
    )


def test_the_next_run_exports_what_is_new(tmp_path: Path) -> None:
    source = FakeSource.of(250, 90)
    export(source, tmp_path)
    before = files_in(tmp_path)
    source.grow(P1, 120)
    summary = export(source, tmp_path)
    assert [(one.partition, one.start, one.end) for one in summary.partitions] == [(1, 90, 120)]
    added = {path for path in files_in(tmp_path) - before if path.endswith(".parquet")}
    assert added == {"topic=orders/partition=1/part-00000000000000000090-00000000000000000120-000002.parquet"}
    assert offsets_in(tmp_path) == {P0: list(range(250)), P1: list(range(120))}


def test_nothing_new_changes_nothing(tmp_path: Path) -> None:
    source = FakeSource.of(250)
    export(source, tmp_path)
    before = files_in(tmp_path)
    summary = export(source, tmp_path)
    assert summary.committed_plans == ()
    assert summary.counters.rows == 0
    assert files_in(tmp_path) == before


def test_an_empty_topic_leaves_no_target(tmp_path: Path) -> None:
    summary = export(FakeSource.of(0, 0), tmp_path / "lake")
    assert summary.committed_plans == ()
    assert not (tmp_path / "lake").exists()


def test_an_existing_empty_target_is_left_empty(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    export(FakeSource.of(0), tmp_path / "lake")
    assert list((tmp_path / "lake").iterdir()) == []


def test_new_partitions_begin_at_their_first_offset(tmp_path: Path) -> None:
    source = FakeSource.of(50)
    export(source, tmp_path, options(rules=RangeRules(starting=Latest())))
    source.grow(P0, 60)
    export(source, tmp_path)
    source.grow(P1, 30)
    export(source, tmp_path, options(rules=RangeRules(starting=Latest())))
    assert offsets_in(tmp_path) == {P0: list(range(60)), P1: list(range(30))}


def test_a_start_applies_to_the_first_run_only(tmp_path: Path) -> None:
    source = FakeSource.of(50)
    since = AtTimestamp(EPOCH_US // 1000 + 20_000)
    export(source, tmp_path, options(rules=RangeRules(starting=since)))
    source.grow(P0, 60)
    export(source, tmp_path, options(rules=RangeRules(starting=since)))
    assert offsets_in(tmp_path) == {P0: list(range(20, 60))}


def test_rows_are_those_of_the_source(tmp_path: Path) -> None:
    export(FakeSource.of(45), tmp_path, options(write=WriteOptions(reading=Reading(columns=COLUMNS))))
    (file,) = tmp_path.rglob("*.parquet")
    rows = pq.ParquetFile(file).read().to_pylist()
    moments = [datetime.fromtimestamp((EPOCH_US // 10**6) + one, UTC) for one in range(45)]
    assert rows == [
        {
            **expected_row(offset),
            "timestamp": moments[offset],
            "headers": None if offset % 3 else [{"key": "n", "value": str(offset).encode()}],
        }
        for offset in range(45)
    ]


def test_topic_and_partition_are_columns_when_they_are_not_in_the_path(tmp_path: Path) -> None:
    flat = options(write=WriteOptions(layout=Layout(())))
    export(FakeSource.of(30, 30), tmp_path, flat)
    assert {path for path in files_in(tmp_path) if path.endswith(".parquet")} == {
        f"part-orders-0to1-{0:020d}-{30:020d}-000001.parquet"
    }
    assert offsets_on_disk(tmp_path) == {P0: list(range(30)), P1: list(range(30))}


def test_columns_not_wanted_are_not_written(tmp_path: Path) -> None:
    wanted = options(write=WriteOptions(reading=Reading(columns=("value", "topic"))))
    export(FakeSource.of(30), tmp_path, wanted)
    (file,) = tmp_path.rglob("*.parquet")
    assert pq.ParquetFile(file).schema_arrow.names == ["value"]
    (listed,) = list_export(LocalTarget(str(tmp_path))).files
    assert (listed.first_offset, listed.last_offset, listed.rows) == (0, 29, 30)


def test_two_topics_share_a_target(tmp_path: Path) -> None:
    source = FakeSource({P0: 30, TopicPartition("clicks", 0): 20}, topic_ids={"orders": "a", "clicks": "b"})
    export(source, tmp_path, options("orders", "clicks"))
    assert offsets_in(tmp_path) == {P0: list(range(30)), ("clicks", 0): list(range(20))}
    listing = list_export(LocalTarget(str(tmp_path)))
    assert listing.topics == {"orders": "a", "clicks": "b"}
    assert listing.next_offsets == {"orders": {0: 30}, "clicks": {0: 20}}


def test_a_topic_may_join_later_and_others_are_not_forgotten(tmp_path: Path) -> None:
    source = FakeSource({P0: 30, TopicPartition("clicks", 0): 20}, topic_ids={"orders": "a", "clicks": "b"})
    export(source, tmp_path, options("orders"))
    export(source, tmp_path, options("orders", "clicks"))
    source.grow(P0, 40)
    export(source, tmp_path, options("clicks", "orders"))
    assert offsets_in(tmp_path) == {P0: list(range(40)), ("clicks", 0): list(range(20))}


REFUSED = {
    "another topic": (
        FakeSource.of(30, topic="clicks"),
        options("clicks"),
        "another topic: orders (now: clicks)",
    ),
    "another cluster": (
        replace(FakeSource.of(30), cluster="B"),
        options(),
        "another cluster: cluster-A (now: B)",
    ),
    "other columns": (
        FakeSource.of(30),
        options(write=WriteOptions(reading=Reading(columns=("value",)))),
        "another list of columns: key,value,topic,partition,offset,timestamp,timestampType (now: value)",
    ),
    "another layout": (
        FakeSource.of(30),
        options(write=WriteOptions(layout=Layout(("topic",)))),
        "another layout: topic,partition (now: topic)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_target_is_refused_that_was_exported_with(case: str, tmp_path: Path) -> None:
    export(FakeSource.of(20), tmp_path)
    before = files_in(tmp_path)
    source, asked, message = REFUSED[case]
    with pytest.raises(TargetMismatch) as refusal:
        export(source, tmp_path, asked)
    assert refusal.value.message == f"`{tmp_path}` was exported with {message}"
    assert files_in(tmp_path) == before


def test_a_directory_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("…")
    with pytest.raises(KcliError, match=r"holds files that are not of an export: `thesis.tex`"):
        export(FakeSource.of(20), tmp_path)
    assert files_in(tmp_path) == {"thesis.tex"}


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("…")
    with pytest.raises(KcliError, match="not a directory"):
        export(FakeSource.of(20), tmp_path / "lake")


def test_a_target_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KcliError) as refusal:
        export(FakeSource.of(20), tmp_path / "file" / "lake")
    assert refusal.value.message == f"cannot write to `{tmp_path}/file/lake`: Not a directory"


def test_progress_adds_up_to_what_is_read(tmp_path: Path) -> None:
    told = Watched()
    export(FakeSource.of(250, 90), tmp_path, progress=told)
    assert told.totals == [(4, 34_000)]
    assert (told.rows, told.read_bytes) == (340, 34_000)
    assert len(told.receipts) == 4


def test_the_log_is_readable_json(tmp_path: Path) -> None:
    export(FakeSource.of(20), tmp_path)
    commit = json.loads((state_of(tmp_path) / "log/0000000001.commit.json").read_text())
    assert commit["next"] == {"orders": {"0": 20}}
    assert commit["totals"]["rows"] == 20
    identity = json.loads((state_of(tmp_path) / "export.json").read_text())
    assert identity["format"] == 1
    assert identity["topics"] == {"orders": "id-1"}
