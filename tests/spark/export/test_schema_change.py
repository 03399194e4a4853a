"""The schema of a target's values may get new fields; every other change is refused, and named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kcli.errors import KcliError
from kcli.spark.export.log.export_log import list_export, read_identity
from kcli.spark.export.options import ExportOptions, TargetMismatch, WriteOptions
from kcli.spark.export.schema_change import schema_difference
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.split import FieldFormat, ReadCounters, Reading, Split
from tests.spark.export.exporting import InlineEngine, export, options
from tests.spark.export.fake_source import FakeReader, FakeSource

OLD = "id BIGINT, place STRUCT<x: DOUBLE, tags: ARRAY<STRUCT<name: STRING>>>, counts MAP<STRING, INT>"
WIDE = "".join(f"field_{number} STRING, " for number in range(40))


@dataclass(frozen=True)
class JsonReader(FakeReader):
    """Values are objects with their offset, from offset 50 on with a total, too."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split, reading, counters):
            values = [
                json.dumps({"id": offset, **({"total": f"{offset} EUR"} if offset >= 50 else {})}).encode()
                for offset in batch.column("offset").to_pylist()
            ]
            position = batch.schema.get_field_index("value")
            yield batch.set_column(position, "value", pa.array(values, pa.binary()))


def as_json(schema: str) -> ExportOptions:
    return options(write=WriteOptions(value=FieldFormat("json", schema)))


@pytest.mark.parametrize(
    ("now", "difference"),
    [
        (OLD.replace("id BIGINT", "id BIGINT NOT NULL COMMENT 'the same'"), None),
        (OLD + ", total STRING", None),
        ("total STRING, " + OLD, None),
        (OLD.replace("x: DOUBLE", "x: DOUBLE, y: DOUBLE"), None),
        (OLD.replace("name: STRING", "name: STRING, more: INT"), None),
        (OLD.replace("id BIGINT", "id INT"), "`id` was int64, and is now int32"),
        (OLD.replace("id BIGINT, ", ""), "`id` is missing now"),
        (OLD.replace("id BIGINT", "ident BIGINT"), "`id` is missing now"),
        (OLD.replace("x: DOUBLE, ", ""), "`place.x` is missing now"),
        (
            OLD.replace("name: STRING", "name: INT"),
            "`place.tags.element.name` was string, and is now int32",
        ),
        (
            OLD.replace("<STRING, INT>", "<STRING, BIGINT>"),
            "`counts.value` was int32, and is now int64",
        ),
    ],
)  # fmt: skip
def test_what_is_no_new_field_is_named(now: str, difference: str | None) -> None:
    assert schema_difference(FieldFormat("json", OLD), FieldFormat("json", now)) == difference


def test_a_new_field_is_null_in_older_files(tmp_path: Path) -> None:
    source = FakeSource.of(50, fake_reader=JsonReader())
    export(source, tmp_path, as_json("id BIGINT"))
    source.grow(("orders", 0), 100)
    export(source, tmp_path, as_json("id BIGINT, total STRING"))
    files = [tmp_path / file.path for file in list_export(LocalTarget(str(tmp_path))).files]
    newest = pq.read_schema(files[-1])
    rows = ds.dataset(files, schema=newest).to_table(columns=["offset", "value"]).to_pylist()
    assert rows == [
        {"offset": one, "value": {"id": one, "total": f"{one} EUR" if one >= 50 else None}}
        for one in range(100)
    ]


def test_a_field_that_was_added_cannot_be_left_out_again(tmp_path: Path) -> None:
    source = FakeSource.of(50, fake_reader=JsonReader())
    for schema in ("id BIGINT", "id BIGINT, total STRING"):
        export(source, tmp_path, as_json(schema))
        source.grow(("orders", 0), 100)
    export(source, tmp_path, as_json("id BIGINT, total STRING"))
    with pytest.raises(TargetMismatch, match="another value schema: `total` is missing now"):
        export(source, tmp_path, as_json("id BIGINT"))


class Away(InlineEngine):
    def run(self, *_: object) -> None:
        raise ConnectionError("away")


def test_a_run_that_fails_changes_no_schema_and_the_next_one_may(tmp_path: Path) -> None:
    source = FakeSource.of(50, fake_reader=JsonReader())
    export(source, tmp_path, as_json("id BIGINT"))
    source.grow(("orders", 0), 100)
    with pytest.raises(KcliError):
        export(source, tmp_path, as_json("id BIGINT, total STRING"), engine=Away())
    identity = read_identity(LocalTarget(str(tmp_path)))
    assert identity is not None
    assert identity.value.schema == "id BIGINT"
    export(source, tmp_path, as_json("id BIGINT, total STRING"))
    identity = read_identity(LocalTarget(str(tmp_path)))
    assert identity is not None
    assert identity.value.schema == "id BIGINT, total STRING"


def test_the_difference_of_two_long_schemas_is_shown(tmp_path: Path) -> None:
    source = FakeSource.of(50, fake_reader=JsonReader())
    export(source, tmp_path, as_json(WIDE + "id BIGINT"))
    with pytest.raises(TargetMismatch) as refusal:
        export(source, tmp_path, as_json(WIDE + "id STRING"))
    said = f"`{tmp_path}` was exported with another value schema: `id` was int64, and is now string"
    assert refusal.value.message == said


def test_two_long_texts_are_cut_to_their_difference(tmp_path: Path) -> None:
    first = ", ".join(f"value AS value_{number}" for number in range(20))
    export(FakeSource.of(50), tmp_path, options(write=WriteOptions(select=first)))
    with pytest.raises(TargetMismatch) as refusal:
        export(FakeSource.of(50), tmp_path, options(write=WriteOptions(select=first.replace("_17", "_x"))))
    assert "value_17" in refusal.value.message
    assert "value_x" in refusal.value.message
    assert len(refusal.value.message) < len(str(tmp_path)) + 250
