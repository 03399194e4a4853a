"""What is printed of an export: as text, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.commands.export.export_view import (
    Exported,
    Failed,
    Listed,
    Planned,
    Repaired,
    Verified,
    warnings_of,
)
from kcli.commands.export.spark_import import Imported, ImportedPartition
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import Result, print_result
from kcli.errors import KcliError
from kcli.spark.export.dry_run import DryRun, PlannedPartition
from kcli.spark.export.log.commit import Gap, PartitionSummary, Summary
from kcli.spark.export.log.export_log import Listing
from kcli.spark.export.log.receipt import Counters, WrittenFile
from kcli.spark.export.repair import Repair
from kcli.spark.export.verification import Problem, Verification

SUMMARY = Summary(
    target="/lake/orders",
    state="/lake/_orders.kcli",
    committed_plans=(7,),
    partitions=(
        PartitionSummary(topic="orders", partition=0, start=100, end=2100, rows=2000, files=2),
        PartitionSummary(topic="orders", partition=1, start=0, end=1, rows=1, files=1),
    ),
    files=3,
    bytes_written=45_210,
    counters=Counters(rows=2001, bytes_read=123_456, corrupt_batches=1, corrupt_bytes=700),
    gaps=(Gap(topic="orders", partition=0, start=90, end=100, reason="the log starts at offset 100"),),
    seconds=1.25,
)
FILES = tuple(
    WrittenFile(
        path=f"topic=orders/partition=0/part-{start:020}-{start + 1000:020}-000001.parquet",
        temporary=None, topic="orders", partition=0, start=start, end=start + 1000, rows=1000,
        size_bytes=20_000, first_offset=start, last_offset=start + 999,
        first_timestamp_us=1_700_000_000_000_000, last_timestamp_us=1_700_000_001_000_000,
        crc32c=0xE3069283,
    )
    for start in (0, 1000)
)  # fmt: skip
RESULTS: dict[str, tuple[Result, ...]] = {
    "export": (
        Exported(SUMMARY),
        Exported(Summary(target="/lake/orders", state="/lake/_orders.kcli")),
        Failed("export", "data-loss", (KcliError("offsets are gone", hint="read what there is"),)),
    ),
    "export_dry_run": (
        Planned(
            DryRun(
                target="/lake/orders",
                resumes_plan=6,
                partitions=(
                    PlannedPartition(
                        topic="orders", partition=0, start=0, end=2000, records=2000, size_bytes=65_000,
                        splits=2,
                    ),
                ),
                files=2,
            )
        ),
        Planned(DryRun(target="/lake/orders", resumes_plan=None, partitions=(), files=0)),
    ),
    "export_list": (
        Listed(
            Listing(
                target="/lake/orders", cluster_id="c", topics={"orders": "t"}, last_commit=1, files=FILES,
                next_offsets={"orders": {0: 2000}}, unfinished_plan=None,
            )
        ),
    ),
    "export_verify": (
        Verified.of(Verification(target="/lake/orders", files=2, rows=2000, bytes=40_000)),
        Verified.of(
            Verification(
                target="/lake/orders", files=2, rows=1000, bytes=20_000,
                problems=(Problem(FILES[1].path, "it is not there"),),
            )
        ),
    ),
    "export_repair": (
        Repaired(
            Repair(
                target="/lake/orders", commit=8, files=2, rows=2000, removed=("part-1.parquet",),
                next_offsets={"orders": {0: 2000}},
            )
        ),
        Repaired(Repair(target="/lake/orders", commit=None, files=2, rows=2000)),
    ),
    "import": tuple(
        Imported(operation, "/lake/orders", "orders", "copy", parts, 2.5)
        for operation, parts in (
            ("import", [ImportedPartition(0, 2000, 0, 2000), ImportedPartition(1, 10, 4, 6)]),
            ("dry-run", [ImportedPartition(0, 2000, 500, 0)]),
            ("import", [ImportedPartition(0, 2000, 2000, 0)]),
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_in_every_format(
    name: str,
    golden: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    for result in RESULTS[name]:
        for form in OutputFormat:
            print(f"--- {form}")
            print_result(result, form)
    golden(f"cli/spark/{name}.txt", capsys.readouterr().out)


def test_what_is_not_in_the_files_is_said() -> None:
    counters = Counters(
        corrupt_batches=2, corrupt_bytes=9, dead_letter_batches=2, bad_values=1, dead_letter_rows=1
    )
    kept = Summary(target="/lake", state="/_lake.kcli", counters=counters)
    nothing = Summary(target="/lake", state="/_lake.kcli")
    assert [*warnings_of(SUMMARY), *warnings_of(kept), *warnings_of(nothing)] == [
        "orders-0: offsets 90 to 99 are not there: the log starts at offset 100",
        "1 damaged place left out, 700 B",
        "2 damaged places left out, 9 B, kept in /_lake.kcli/dead-letter/batches",
        "1 key or value not decoded, kept in /_lake.kcli/dead-letter/values",
    ]


@pytest.mark.parametrize(
    ("partition", "start", "end", "said"),
    [
        (3, 7, 8, "orders-3: offset 7 is not there: damaged"),
        (3, 7, 9, "orders-3: offsets 7 to 8 are not there: damaged"),
        (3, 0, 0, "orders-3: damaged"),
        (-1, 0, 0, "orders: damaged"),
    ],
)
def test_what_is_missing_is_named_with_its_last_offset(
    partition: int, start: int, end: int, said: str
) -> None:
    gap = Gap(topic="orders", partition=partition, start=start, end=end, reason="damaged")
    assert list(warnings_of(Summary(target="/lake", state="/_lake.kcli", gaps=(gap,)))) == [said]


def test_problems_make_the_exit_code() -> None:
    found = Verification(target="/lake", files=1, rows=0, bytes=0, problems=(Problem("a", "gone"),))
    assert [error.exit_code for error in Verified.of(found).failures] == [3]
