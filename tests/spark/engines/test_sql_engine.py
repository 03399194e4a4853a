"""Exports with Spark SQL in between: the same files as without it, and what only SQL can do."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from kcli.errors import Interrupted, KcliError
from kcli.spark.engines.frame_columns import condition_of, visible_columns, written_columns
from kcli.spark.engines.session import OpenSession
from kcli.spark.engines.sql_engine import SqlEngine, connector_options, package
from kcli.spark.export.failures import FailureKind, TaskFailed
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.options import WriteOptions
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import COLUMNS, FieldFormat, OnBadValue, OnCorrupt, Reading, Split
from tests.spark.export.exporting import export, files_in, offsets_in, options, temporary_files
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.spark.export.test_resuming import StopsAfter


def orders(**reader: object) -> FakeSource:
    return FakeSource.of(250, 60, fake_reader=FakeReader(**reader))  # type: ignore[arg-type]


@pytest.fixture
def engine(spark_session: OpenSession) -> SqlEngine:
    return spark_session.sql_engine()


def written(**fields: object) -> WriteOptions:
    return WriteOptions(reading=Reading(columns=COLUMNS), **fields)  # type: ignore[arg-type]


def table_of(target: Path) -> pq.ParquetFile:
    """All rows of the committed files in the order of their names, with the schema they have."""
    files = sorted(file.path for file in list_export(LocalTarget(str(target))).files)
    return pq.ParquetDataset([target / path for path in files], partitioning=None).read()


def test_files_are_those_of_the_arrow_writer(engine: SqlEngine, tmp_path: Path) -> None:
    """Names, schema, rows, footers: all but the encoding of what Spark hands over in smaller pieces."""
    asked = options(write=written(layout=Layout(("topic", "partition", "date"))))
    day = {"step_us": 3_600_000_000}
    export(orders(**day), tmp_path / "sql", asked, engine=engine)
    export(orders(**day), tmp_path / "arrow", asked)
    names = {path for path in files_in(tmp_path / "arrow") if path.endswith(".parquet")}
    assert len(names) > 10
    assert {path for path in files_in(tmp_path / "sql") if path.endswith(".parquet")} == names
    for name in names:
        ours, theirs = (pq.ParquetFile(tmp_path / kind / name) for kind in ("sql", "arrow"))
        assert ours.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
        assert ours.read().equals(theirs.read())
    assert verify_export(LocalTarget(str(tmp_path / "sql"))).problems == ()


def test_sql_computes_columns_and_filters_rows(engine: SqlEngine, tmp_path: Path) -> None:
    select = "upper(key) AS k, `offset` * 2 AS twice, date_format(timestamp, 'HH:mm') AS at"
    write = WriteOptions(
        key=FieldFormat("string"), select=select, where="length(key) = 6 AND partition = 0 AND offset < 40"
    )
    summary = export(orders(), tmp_path, options(write=write), engine=engine)
    kept = [offset for offset in range(10, 40) if offset % 7]
    assert table_of(tmp_path).to_pylist() == [
        {"k": f"KEY {offset}", "twice": offset * 2, "at": "00:00"} for offset in kept
    ]
    assert summary.counters.rows == len(kept)
    assert summary.counters.rows_filtered > 0
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_a_star_takes_every_column_and_none_of_ours(engine: SqlEngine, tmp_path: Path) -> None:
    write = written(select="*, hex(value) AS hexadecimal", where="offset in (3, 4) OR offset = 5")
    export(orders(), tmp_path, options(write=write), engine=engine)
    table = table_of(tmp_path)
    left = [name for name in COLUMNS if name not in ("topic", "partition")]
    assert table.column_names == [*left, "hexadecimal"]
    assert table.column("offset").to_pylist() == [3, 4, 5, 3, 4, 5]


def test_a_plan_whose_partitions_share_files_is_resumed(
    engine: SqlEngine, spark_session: OpenSession, tmp_path: Path
) -> None:
    """SQL writes a file per partition; what the tasks were to share, they write."""
    asked = options(write=written(layout=Layout(("topic",))))
    source = replace(orders(), split_offsets=1000)
    with pytest.raises(KcliError):
        export(source, tmp_path, asked, engine=StopsAfter(0))
    assert export(source, tmp_path, asked, engine=engine).files == 1
    whole = {("orders", 0): list(range(250)), ("orders", 1): list(range(60))}
    assert offsets_in(tmp_path) == whole
    source.ends = dict.fromkeys(source.ends, 280)
    unshared = replace(asked, limits=SplitLimits(shares_files=False))
    assert export(source, tmp_path, unshared, engine=engine).files == 2
    source.ends = dict.fromkeys(source.ends, 290)
    assert export(source, tmp_path, asked, engine=spark_session.engine()).files == 1
    assert offsets_in(tmp_path) == {one: list(range(290)) for one in whole}
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


class Terminated(SqlEngine):
    """Gets SIGTERM while Spark is asked for the rows."""

    def _rows(self, tasks: Sequence[SplitTask]) -> DataFrame:
        os.kill(os.getpid(), signal.SIGTERM)
        rows = super()._rows(tasks)
        self.has_rows = True
        return rows


def test_a_signal_does_not_cut_off_a_call_into_the_jvm(
    spark_session: OpenSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """py4j would print a traceback, and its connection would be broken."""
    terminated = Terminated(spark_session.spark, spark_session.engine())
    asked = options(write=written())
    with pytest.raises(Interrupted):
        export(orders(), tmp_path, asked, engine=terminated)
    assert terminated.has_rows
    assert caplog.messages == []
    assert temporary_files(tmp_path) == []
    export(orders(), tmp_path, asked, engine=spark_session.sql_engine())
    assert offsets_in(tmp_path) == {("orders", 0): list(range(250)), ("orders", 1): list(range(60))}


def test_a_plan_without_rows_is_committed_and_not_read_again(engine: SqlEngine, tmp_path: Path) -> None:
    write = WriteOptions(where="value = X'00' OR value = X'01'")
    first = export(orders(), tmp_path, options(write=write), engine=engine)
    assert (first.counters.rows, first.files, len(first.committed_plans)) == (0, 0, 1)
    assert export(orders(), tmp_path, options(write=write), engine=engine).committed_plans == ()


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("count(*) AS n", "Spark refuses it: "),
        (
            "nothing",
            "Spark refuses it: A column, variable, or function parameter with name `nothing`",
        ),
        ("1 +", "Spark refuses it: Syntax error"),
        ("offset, offset", "`--select` names a column twice: offset"),
        ("topic", "no column is left to write"),
    ],
)
def test_sql_that_cannot_be_is_refused_before_anything_is_written(
    select: str, message: str, engine: SqlEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KcliError) as caught:
        engine.check(WriteOptions(select=select))
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_sql_that_moves_rows_between_tasks_is_refused(engine: SqlEngine, tmp_path: Path) -> None:
    write = WriteOptions(select="offset, row_number() OVER (PARTITION BY key ORDER BY offset) AS n")
    with pytest.raises(TaskFailed, match="`--select` moves rows between tasks"):
        export(orders(), tmp_path, options(write=write), engine=engine)
    assert temporary_files(tmp_path / "topic=orders") == []


def test_damage_is_told_as_without_sql(engine: SqlEngine, tmp_path: Path) -> None:
    write = WriteOptions(select="offset")
    with pytest.raises(TaskFailed, match="wrong checksum") as caught:
        export(orders(poison=(150,)), tmp_path, options(write=write), engine=engine)
    assert caught.value.kind is FailureKind.CORRUPTION
    skip = WriteOptions(reading=Reading(on_corrupt=OnCorrupt.SKIP), select="offset")
    summary = export(orders(poison=(150,)), tmp_path, options(write=skip), engine=engine)
    assert (summary.counters.corrupt_batches, summary.counters.rows) == (1, 270)
    assert [(gap.partition, gap.start, gap.end) for gap in summary.gaps] == [(0, 140, 180)]


def test_a_worker_that_dies_once_costs_nothing_but_time(engine: SqlEngine, tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die once")
    source = orders(trouble=trouble)
    export(
        source, tmp_path / "out", options(write=written(where="offset >= 0 OR key IS NULL")), engine=engine
    )
    assert offsets_in(tmp_path / "out") == {("orders", 0): list(range(250)), ("orders", 1): list(range(60))}
    assert temporary_files(tmp_path / "out") == []


def test_rows_with_bad_values_are_kept_as_they_were(engine: SqlEngine, tmp_path: Path) -> None:
    """As by the arrow writer: files, counts, and what is left of attempts that failed."""
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    (trouble / "split-100").write_text("die once")
    write = written(key=FieldFormat("long"), on_bad_value=OnBadValue.DEAD_LETTER)
    by_sql = replace(write, where="offset >= 0 OR partition = 7")
    summary = export(orders(trouble=trouble), tmp_path / "sql", options(write=by_sql), engine=engine)
    expected = export(orders(), tmp_path / "arrow", options(write=write))
    assert summary.counters == replace(expected.counters, bytes_read=summary.counters.bytes_read)
    for kind in ("_kcli/dead-letter/values", "topic=orders"):
        folders = [Path(LocalTarget(str(tmp_path / target)).local_path(kind)) for target in ("sql", "arrow")]
        ours, theirs = map(files_in, folders)
        assert ours == theirs != set()
        for name in ours:
            tables = [pq.read_table(folder / name, partitioning=None) for folder in folders]
            assert tables[0].equals(tables[1])
    assert verify_export(LocalTarget(str(tmp_path / "sql"))).problems == ()


# --- columns -----------------------------------------------------------------------------------------------


def test_only_columns_that_sql_names_are_read() -> None:
    assert visible_columns(WriteOptions(select="Offset + 1, timestampType")) == ("offset", "timestampType")
    assert visible_columns(WriteOptions(select="key", where="headers IS NULL")) == ("key", "headers")
    assert visible_columns(WriteOptions(where="size(headers) > 1")) == COLUMNS
    assert visible_columns(WriteOptions(select="*")) == COLUMNS[:-1]


def test_the_users_filter_means_the_same_in_spark() -> None:
    assert condition_of(WriteOptions()) is None
    assert condition_of(WriteOptions(where="timestamp >= '2026-05-01' AND length(key) = 3")) == (
        "`timestamp` >= TIMESTAMP '2026-05-01 00:00:00+00:00' AND (length(key) = 3)"
    )


def test_what_is_in_the_path_is_not_written_again() -> None:
    assert written_columns(WriteOptions(select="*"), ["topic", "x", "partition"]) == ["x"]
    flat = WriteOptions(select="*", layout=Layout(()))
    assert written_columns(flat, ["topic", "x"]) == ["topic", "x"]


# --- Spark's own connector ---------------------------------------------------------------------------------


def test_the_connector_is_asked_for_exactly_the_offsets_of_a_split() -> None:
    properties = {"client.id": "kcli", "sasl.mechanism": "PLAIN"}
    assert connector_options(Split("orders", 3, 100, 250), "a:1", properties) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.sasl.mechanism": "PLAIN",
        "assign": '{"orders": [3]}',
        "startingOffsets": '{"orders": {"3": 100}}',
        "endingOffsets": '{"orders": {"3": 250}}',
        "failOnDataLoss": "true",
    }


def test_without_its_jar_the_connector_is_named(spark_session: OpenSession) -> None:
    engine = spark_session.sql_engine(via_connector=True)
    with pytest.raises(KcliError, match="Spark's Kafka connector is not there") as caught:
        engine.check(WriteOptions())
    assert caught.value.hint is not None
    assert package() in caught.value.hint
    assert package().startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.")


def test_it_is_left_out_where_it_is_not_there_or_does_not_suit(
    spark_session: OpenSession, tmp_path: Path
) -> None:
    engine = spark_session.sql_engine(via_connector=None)
    assert isinstance(engine, SqlEngine)
    assert engine.slots == 2
    assert export(orders(), tmp_path, engine=engine).counters.rows == 310
