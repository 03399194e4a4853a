"""The files of an export: where they lie, what they are called, how they are encoded, how many are open."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli import __version__
from kcli.errors import UsageError
from kcli.spark.decode.arrow_columns import HEADERS, arrow_schema
from kcli.spark.export.options import ParquetOptions, WriteOptions
from kcli.spark.export.target.layout import Layout, parsed_name, published_path
from kcli.spark.export.target.local_target import LocalTarget, temporary_name
from kcli.spark.export.writing.row_shaper import HEADER_MAP, header_maps
from kcli.spark.export.writing.split_writer import MAX_OPEN_FILES, Place, SplitWriter, period_of, settings
from kcli.spark.split import COLUMNS, FieldFormat, OnBadValue, OnCorrupt, Reading, Split
from tests.spark.export.exporting import ALL_COLUMNS, export, options
from tests.spark.export.fake_source import EPOCH_US, FakeReader, FakeSource

SPLIT = Split("orders", 3, 1000, 2000)
NAME = "00000000000000001000-00000000000000002000-000007"

LAYOUTS = [
    (("topic", "partition"), "topic=orders/partition=3", f"part-{NAME}"),
    (("topic", "partition", "date"), "topic=orders/partition=3/date=2026-05-01", f"part-{NAME}"),
    (
        ("topic", "partition", "date", "hour"),
        "topic=orders/partition=3/date=2026-05-01/hour=07",
        f"part-{NAME}",
    ),
    (("topic",), "topic=orders", f"part-3-{NAME}"),
    (("date",), "date=2026-05-01", f"part-orders-3-{NAME}"),
    ((), "", f"part-orders-3-{NAME}"),
]


@pytest.mark.parametrize(("columns", "directory", "stem"), LAYOUTS)
def test_where_files_lie_and_what_they_are_called(
    columns: tuple[str, ...], directory: str, stem: str
) -> None:
    layout = Layout(columns)
    assert layout.directory(SPLIT, ("2026-05-01", "07")) == directory
    assert layout.stem((SPLIT,), 7) == stem
    for path in (f"{stem}.parquet", f"{directory}/{stem}-1.parquet", f"{stem}-1-0badcafe.parquet"):
        hidden = temporary_name(path, "0badcafe")
        assert published_path(hidden) == path
        for name, is_temporary in ((path, False), (hidden, True)):
            found = parsed_name(name)
            assert found is not None
            assert (found.stem, found.plan, found.is_temporary) == (stem, 7, is_temporary)


def test_topic_names_are_escaped_as_hive_does() -> None:
    assert Layout().directory(Split("a=b%/c", 0, 0, 1)) == "topic=a%3Db%25%2Fc/partition=0"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("colour",), "cannot partition by `colour`"),
        (("partition", "topic"), "cannot partition by `partition,topic`"),
        (("topic", "topic"), "cannot partition by `topic,topic`"),
        (("topic", "hour"), "cannot partition by `hour` without `date`"),
    ],
)
def test_what_is_no_layout(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Layout(columns)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("number", "unit", "period"),
    [
        (0, "D", ("1970-01-01",)),
        (-1, "D", ("1969-12-31",)),
        (-1, "h", ("1969-12-31", "23")),
        (20_574 * 24 + 5, "h", ("2026-05-01", "05")),
        (9_000_000, "D", ("26611-03-02",)),
    ],
)
def test_dates_and_hours(number: int, unit: str, period: tuple[str, ...]) -> None:
    assert period_of(number, unit) == period  # type: ignore[arg-type]


# --- one writer for every date or hour -----------------------------------------------------------------


def writer(tmp_path: Path, *by: str, row_group_rows: int = 1_000_000) -> SplitWriter:
    layout = Layout(by)
    place = Place(LocalTarget(str(tmp_path)), layout, (SPLIT,), layout.stem((SPLIT,), 7), "0badcafe")
    return SplitWriter(
        place,
        schema=arrow_schema(["offset"]),
        metadata={"kcli.plan": "7"},
        parquet=ParquetOptions(row_group_rows=row_group_rows),
    )


def add(one: SplitWriter, offsets: list[int], hours: list[int]) -> None:
    rows = pa.RecordBatch.from_pydict({"offset": offsets}, schema=arrow_schema(["offset"]))
    one.add(rows, np.array(offsets), EPOCH_US + np.array(hours, np.int64) * 3_600_000_000)


def offsets_of(path: Path) -> list[int]:
    found: list[int] = pq.ParquetFile(path).read().column("offset").to_pylist()
    return found


def test_rows_go_where_their_hour_is(tmp_path: Path) -> None:
    split = writer(tmp_path, "date", "hour")
    add(split, [1000, 1001, 1002, 1003], [0, 25, 0, 1])
    add(split, [1004, 1005], [1, 1])
    files = split.finish()
    assert {file.path.rpartition("/")[0]: offsets_of(tmp_path / str(file.temporary)) for file in files} == {
        "date=2026-05-01/hour=00": [1000, 1002],
        "date=2026-05-01/hour=01": [1003, 1004, 1005],
        "date=2026-05-02/hour=01": [1001],
    }
    first = next(file for file in files if file.rows == 2)
    assert (first.first_offset, first.last_offset) == (1000, 1002)
    assert (first.first_timestamp_us, first.last_timestamp_us) == (EPOCH_US, EPOCH_US)
    assert first.size_bytes == (tmp_path / str(first.temporary)).stat().st_size


def test_the_least_recently_used_file_is_closed_and_another_goes_on(tmp_path: Path) -> None:
    split = writer(tmp_path, "date", "hour", row_group_rows=1)
    for hour in range(MAX_OPEN_FILES):
        add(split, [1000 + hour], [hour])
    add(split, [1100], [0])
    add(split, [1101], [30])
    assert len(list(tmp_path.rglob("*.parquet.*"))) == MAX_OPEN_FILES + 1
    add(split, [1102], [1])  # whose file was closed for that of hour 30
    files = split.finish()
    assert len(files) == MAX_OPEN_FILES + 2
    again = [file.path for file in files if file.path.endswith("-1.parquet")]
    assert again == [f"date=2026-05-01/hour=01/part-orders-3-{NAME}-1.parquet"]
    found = sorted(offset for file in files for offset in offsets_of(tmp_path / str(file.temporary)))
    assert found == [*range(1000, 1000 + MAX_OPEN_FILES), 1100, 1101, 1102]


def test_few_rows_of_many_hours_make_one_file_an_hour(tmp_path: Path) -> None:
    split = writer(tmp_path, "date", "hour")
    hours = 10 * MAX_OPEN_FILES
    for offset in range(1000, 1000 + 3 * hours):
        add(split, [offset], [offset % hours])
    assert len(list(tmp_path.rglob("*.parquet.*"))) == 1
    assert [file.rows for file in split.finish()] == [3] * hours


def test_rows_are_collected_for_so_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.spark.export.writing.split_writer.MAX_FILES", 2)
    split = writer(tmp_path, "date", "hour")
    for offset, hour in ((1000, 0), (1001, 1), (1002, 2), (1003, 1), (1004, 0)):
        add(split, [offset], [hour])
    assert sorted(file.rows for file in split.finish()) == [1, 1, 1, 2]


def test_a_discarded_split_leaves_no_file(tmp_path: Path) -> None:
    split = writer(tmp_path, "date", "hour", row_group_rows=1)
    for hour in range(MAX_OPEN_FILES + 3):
        add(split, [1000 + hour], [hour])
    split.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_collected_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.spark.export.writing.split_writer.MAX_BUFFERED_BYTES", 10_000)
    split = writer(tmp_path, "date")
    for start in range(1000, 2000, 100):
        add(split, list(range(start, start + 100)), [0, 24] * 50)
        add(split, list(range(start, start + 1)), [0])
    groups = [pq.ParquetFile(tmp_path / str(file.temporary)).num_row_groups for file in split.finish()]
    assert groups == [1, 1] or max(groups) > 1


def test_row_groups_are_about_as_large_as_asked(tmp_path: Path) -> None:
    asked = WriteOptions(parquet=ParquetOptions(row_group_rows=1000))
    source = FakeSource.of(3333, split_offsets=5000, fake_reader=FakeReader(chunk=130))
    export(source, tmp_path, options(write=asked))
    (file,) = tmp_path.rglob("*.parquet")
    metadata = pq.read_metadata(file)
    assert [metadata.row_group(one).num_rows for one in range(metadata.num_row_groups)] == [
        1040,
        1040,
        1040,
        213,
    ]


# --- how they are encoded ------------------------------------------------------------------------------


def test_encodings(tmp_path: Path) -> None:
    flat = WriteOptions(reading=ALL_COLUMNS.reading, layout=Layout(()))
    export(FakeSource.of(90), tmp_path, options(write=flat))
    (file,) = tmp_path.glob("*.parquet")
    metadata = pq.read_metadata(file)
    group = metadata.row_group(0)
    found = {}
    for column in map(group.column, range(group.num_columns)):
        assert column.compression == "ZSTD"
        assert column.has_offset_index
        found[column.path_in_schema] = (column.encodings[-1], column.statistics is not None)
    assert found == {
        "key": ("PLAIN", False),
        "value": ("PLAIN", False),
        "topic": ("RLE_DICTIONARY", False),
        "partition": ("RLE_DICTIONARY", False),
        "offset": ("DELTA_BINARY_PACKED", True),
        "timestamp": ("DELTA_BINARY_PACKED", True),
        "timestampType": ("RLE_DICTIONARY", False),
        "headers.list.element.key": ("RLE_DICTIONARY", False),
        "headers.list.element.value": ("PLAIN", False),
    }
    assert pq.read_schema(file).remove_metadata() == arrow_schema(COLUMNS)
    said = {
        key.decode(): value.decode() for key, value in metadata.metadata.items() if key != b"ARROW:schema"
    }
    identity = json.loads(said.pop("kcli.identity"))
    assert identity["topics"] == {"orders": "id-1"}
    assert said == {
        "kcli.topic": "orders",
        "kcli.partition": "0",
        "kcli.start": "0",
        "kcli.end": "90",
        "kcli.plan": "1",
        "kcli.planned": "0-90",
        "kcli.cluster": "cluster-A",
        "kcli.version": __version__,
        "kcli.files": "1",
    }


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (ParquetOptions(), 1),
        (ParquetOptions("zstd", 9), 9),
        (ParquetOptions("gzip"), 6),
        (ParquetOptions("lz4"), None),
        (ParquetOptions("snappy"), None),
        (ParquetOptions("none"), None),
    ],
)
def test_every_codec_writes(asked: ParquetOptions, level: int | None, tmp_path: Path) -> None:
    schema = arrow_schema(["offset", "value"])
    chosen = settings(schema, asked)
    assert chosen["compression_level"] == level
    pq.write_table(pa.table({"offset": [1], "value": [b"v"]}, schema=schema), tmp_path / "f", **chosen)
    assert pq.read_table(tmp_path / "f").to_pylist() == [{"offset": 1, "value": b"v"}]


def test_decoded_scalars_have_statistics() -> None:
    schema = pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("value", pa.struct([pa.field("id", pa.int64()), pa.field("raw", pa.binary())])),
            pa.field("headers", HEADER_MAP),
        ]
    )
    chosen = settings(schema, ParquetOptions())
    assert chosen["write_statistics"] == ["key", "value.id"]
    assert chosen["use_dictionary"] == ["headers.key_value.key"]


# --- headers as maps -----------------------------------------------------------------------------------

HEADER_LISTS = st.lists(
    st.none()
    | st.lists(
        st.fixed_dictionaries({"key": st.sampled_from("abc"), "value": st.none() | st.binary(max_size=3)}),
        max_size=5,
    ),
    max_size=12,
)


@given(HEADER_LISTS, st.integers(0, 3))
def test_of_headers_with_the_same_key_the_last_counts(
    lists: list[list[dict[str, object]] | None], skipped: int
) -> None:
    column = pa.array(lists, HEADERS).slice(skipped)
    maps = header_maps(column)
    assert maps.type == HEADER_MAP
    maps.validate(full=True)
    expected = [
        None if one is None else {header["key"]: header["value"] for header in one} for one in lists[skipped:]
    ]
    assert [None if one is None else dict(one) for one in maps.to_pylist()] == expected


def test_headers_are_written_as_maps(tmp_path: Path) -> None:
    write = WriteOptions(reading=Reading(columns=("offset", "headers")), headers_as_map=True)
    export(FakeSource.of(4), tmp_path, options(write=write))
    (file,) = tmp_path.rglob("*.parquet")
    rows = pq.ParquetFile(file).read().column("headers").to_pylist()
    assert rows == [[("n", b"0")], None, None, [("n", b"3")]]


# --- options -------------------------------------------------------------------------------------------


def test_options_survive_a_plan() -> None:
    asked = WriteOptions(
        reading=Reading(columns=("key", "value"), read_committed=True, on_corrupt=OnCorrupt.SKIP),
        key=FieldFormat("long"),
        value=FieldFormat("json", "a INT"),
        on_bad_value=OnBadValue.DEAD_LETTER,
        headers_as_map=True,
        where="offset > 3",
        select="upper(value)",
        layout=Layout(("topic", "date")),
        parquet=ParquetOptions("gzip", 4, 10),
    )
    assert WriteOptions.from_json(json.loads(json.dumps(asked.to_json()))) == asked
