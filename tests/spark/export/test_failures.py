"""What a run makes of bad data: refused with the target unchanged, or counted, or kept aside."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcli.client.network.bootstrap import Unreachable
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.decode.formats.formats import BadValue
from kcli.spark.export.failures import FailureKind, TargetLocked, is_final, is_passing, kind_of, portable
from kcli.spark.export.log.commit import Gap
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.options import WriteOptions
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.source.data_loss import DataLoss, TopicReset
from kcli.spark.split import COLUMNS, FieldFormat, OnBadValue, OnCorrupt, Reading
from tests.spark.export.exporting import export, files_in, offsets_in, options
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.support.spark_exports import state_of

POISONED = FakeReader(poison=(130,))
"""The chunk of offsets 100 to 139 is damaged."""

LAYOUTS = [("topic", "partition"), ("topic", "partition", "date"), ()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_poison_batch_leaves_a_new_target_away(tmp_path: Path, layout: tuple[str, ...]) -> None:
    asked = options(write=WriteOptions(layout=Layout(layout)))
    with pytest.raises(CorruptBatch):
        export(FakeSource.of(250, fake_reader=POISONED), tmp_path / "lake", asked)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_poison_batch_leaves_a_target_as_it_was(tmp_path: Path, layout: tuple[str, ...]) -> None:
    asked = options(write=WriteOptions(layout=Layout(layout)))
    export(FakeSource.of(90), tmp_path, asked)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptBatch):
        export(FakeSource.of(400, fake_reader=POISONED), tmp_path, asked)
    assert sorted(tmp_path.rglob("*")) == before
    export(FakeSource.of(400), tmp_path, asked)
    assert offsets_in(tmp_path) == {("orders", 0): list(range(400))}


def test_skipped_batches_are_counted_and_their_offsets_known(tmp_path: Path) -> None:
    skip = options(write=WriteOptions(reading=Reading(on_corrupt=OnCorrupt.SKIP)))
    summary = export(FakeSource.of(250, fake_reader=POISONED), tmp_path, skip)
    assert (summary.counters.corrupt_batches, summary.counters.corrupt_bytes) == (1, 4000)
    assert summary.gaps == (Gap(topic="orders", partition=0, start=100, end=140, reason="damaged"),)
    assert offsets_in(tmp_path)["orders", 0] == [one for one in range(250) if not 100 <= one < 140]
    commit = json.loads((state_of(tmp_path) / "log/0000000001.commit.json").read_text())
    assert commit["gaps"][0] == {
        "topic": "orders", "partition": 0, "start": 100, "end": 140, "reason": "damaged"
    }  # fmt: skip


def test_damaged_batches_are_kept_as_they_were(tmp_path: Path) -> None:
    asked = options(write=WriteOptions(reading=Reading(on_corrupt=OnCorrupt.DEAD_LETTER)))
    summary = export(FakeSource.of(250, fake_reader=POISONED), tmp_path, asked)
    assert summary.counters.dead_letter_batches == 1
    folder = state_of(tmp_path) / "dead-letter/batches"
    assert sorted(path.name for path in folder.iterdir()) == ["orders-0-100.bin", "orders-0-100.json"]
    assert (folder / "orders-0-100.bin").read_bytes() == b"raw orders 0 100"
    facts = json.loads((folder / "orders-0-100.json").read_text())
    assert facts["reason"] == "wrong checksum"
    assert facts["split"] == [100, 200]


def test_a_bad_value_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    asked = options(write=WriteOptions(value=FieldFormat("int")))
    with pytest.raises(BadValue, match=r"in `orders-0` at offset 0"):
        export(FakeSource.of(250), tmp_path / "lake", asked)
    assert not (tmp_path / "lake").exists()


def test_bad_values_become_null_and_are_counted(tmp_path: Path) -> None:
    asked = options(write=WriteOptions(key=FieldFormat("long"), on_bad_value=OnBadValue.NULL))
    summary = export(FakeSource.of(50), tmp_path, asked)
    (file,) = tmp_path.rglob("*.parquet")
    keys = pq.ParquetFile(file).read().column("key")
    assert keys.type == pa.int64()
    assert keys.null_count == 50
    assert summary.counters.bad_values == 42  # every seventh key is null and as such not bad


def test_rows_with_bad_values_are_kept_as_they_were(tmp_path: Path) -> None:
    write = WriteOptions(
        reading=Reading(columns=("key", "offset")),
        key=FieldFormat("long"),
        on_bad_value=OnBadValue.DEAD_LETTER,
    )
    summary = export(FakeSource.of(150), tmp_path, options(write=write))
    kept = pa.concat_tables(
        pq.ParquetFile(path).read()
        for path in sorted(state_of(tmp_path).glob("dead-letter/values/*.dead-letter"))
    )
    assert kept.schema.names == [*COLUMNS, "error"]
    assert kept.column("offset").to_pylist() == [one for one in range(150) if one % 7]
    assert kept.slice(0, 1).to_pylist()[0]["key"] == b"key 1"
    assert kept.column("error")[0].as_py() == "key: 5 bytes, not 8"
    assert offsets_in(tmp_path)["orders", 0] == list(range(0, 150, 7))
    assert (summary.counters.rows, summary.counters.dead_letter_rows) == (22, 128)
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_a_filter_leaves_rows_out_before_they_can_be_bad(tmp_path: Path) -> None:
    write = WriteOptions(
        reading=Reading(columns=("value",)), value=FieldFormat("int"), where="offset < 0 AND value > 5"
    )
    summary = export(FakeSource.of(150), tmp_path, options(write=write))
    assert (summary.counters.rows, summary.counters.rows_filtered) == (0, 150)
    assert list_export(LocalTarget(str(tmp_path))).next_offsets == {"orders": {0: 150}}


def test_a_filter_on_decoded_values(tmp_path: Path) -> None:
    write = WriteOptions(
        reading=Reading(columns=("offset",)), value=FieldFormat("string"), where="value LIKE 'value 1%'"
    )
    export(FakeSource.of(120), tmp_path, options(write=write))
    assert offsets_in(tmp_path)["orders", 0] == [one for one in range(120) if str(one).startswith("1")]
    assert files_in(state_of(tmp_path) / "dead-letter") == set()


KINDS = [
    (DataLoss("gone"), FailureKind.DATA_LOSS),
    (KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), FailureKind.DATA_LOSS),
    (TopicReset("again"), FailureKind.TOPIC_RESET),
    (CorruptBatch("f", 1, "bad", first=0, last=1), FailureKind.CORRUPTION),
    (BadValue("bad"), FailureKind.BAD_VALUE),
    (TargetLocked("held"), FailureKind.LOCKED),
    (Unreachable("away"), FailureKind.UNREACHABLE),
    (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), FailureKind.UNREACHABLE),
    (UsageError("wrong"), FailureKind.USAGE),
    (OSError(28, "No space left on device"), FailureKind.ENVIRONMENT),
    (KcliError("other"), FailureKind.OTHER),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=lambda one: type(one).__name__)
def test_a_failure_has_a_kind_that_travels(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind
    arrived = pickle.loads(pickle.dumps(portable(error)))
    assert kind_of(arrived) is kind
    assert str(arrived) == str(error)
    assert is_passing(arrived) is (kind is FailureKind.UNREACHABLE)
    final = (FailureKind.CORRUPTION, FailureKind.BAD_VALUE, FailureKind.USAGE)
    assert is_final(arrived) is (kind in final)


class OfTwoWords(KcliError):
    """Its constructor wants more than a message."""

    def __init__(self, one: str, *, other: str) -> None:
        super().__init__(f"{one} {other}", hint="hm")


class RefusesItsWords(KcliError):
    """Its constructor refuses what unpickling gives it."""

    def __init__(self, number: object) -> None:
        super().__init__(f"number {int(str(number))}", hint="hm")


class LosesItsWords(KcliError):
    """Unpickling makes it of other words."""

    def __init__(self, one: str, other: str = "?") -> None:
        super().__init__(f"{one} {other}", hint="hm")


@pytest.mark.parametrize(
    "error", [RefusesItsWords(7), LosesItsWords("a", "b")], ids=lambda one: type(one).__name__
)
def test_an_error_that_arrives_as_another_sends_its_words(error: KcliError) -> None:
    arrived = pickle.loads(pickle.dumps(portable(error)))
    assert isinstance(arrived, KcliError)
    assert (arrived.message, arrived.hint) == (error.message, "hm")


def test_an_error_that_cannot_travel_sends_its_words() -> None:
    arrived = pickle.loads(pickle.dumps(portable(OfTwoWords("a", other="b"))))
    assert isinstance(arrived, KcliError)
    assert (arrived.message, arrived.hint) == ("a b", "hm")
