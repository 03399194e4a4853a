"""What is asked for is held against source and target, which stays as it was; schemas are pinned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.errors import KcliError, UsageError
from kcli.spark.export.options import ExportOptions, Identity, WriteOptions
from kcli.spark.export.preparation import checked_options
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.source.ranges.selection import SubscribePattern
from kcli.spark.split import FieldFormat
from tests.spark.export.exporting import options
from tests.spark.export.fake_source import FakeSource

REGISTRY = "registry:http://registry"


@pytest.fixture
def target(tmp_path: Path) -> LocalTarget:
    return LocalTarget(str(tmp_path / "out"))


@pytest.fixture(autouse=True)
def latest(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A registry whose latest schema is the last of a list."""
    schemas = ['"int"']
    monkeypatch.setattr(
        "kcli.spark.decode.formats.schema_registry.SchemaRegistry.latest", lambda self, subject: schemas[-1]
    )
    return schemas


def avro(schema: str = REGISTRY) -> ExportOptions:
    return options(write=WriteOptions(value=FieldFormat("avro", schema)))


def test_a_pattern_that_no_topic_fits(target: LocalTarget) -> None:
    asked = ExportOptions(selection=SubscribePattern("^other"))
    with pytest.raises(KcliError, match="no topic fits the pattern"):
        checked_options(FakeSource.of(9), target, asked)
    assert checked_options(FakeSource.of(9), target, asked, may_be_nothing=True) == asked
    fitting = ExportOptions(selection=SubscribePattern("^ord"))
    assert checked_options(FakeSource.of(9), target, fitting) == fitting


@pytest.mark.parametrize(
    ("where", "message"),
    [("nothing = 5", "nothing"), ("value.id = 5", "value"), ("offset = 'abc'", "offset")],
)
def test_a_filter_that_fits_no_column(where: str, message: str, target: LocalTarget) -> None:
    with pytest.raises(UsageError, match=message):
        checked_options(FakeSource.of(9), target, options(write=WriteOptions(where=where)))
    assert not Path(target.root).exists()


def test_a_filter_that_only_spark_understands_is_left_to_it(target: LocalTarget) -> None:
    asked = options(write=WriteOptions(where="length(value) > 5"))
    assert checked_options(FakeSource.of(9), target, asked) == asked


def test_the_schema_of_a_registry_is_pinned(target: LocalTarget) -> None:
    assert checked_options(FakeSource.of(9), target, avro()) == avro(f'{REGISTRY} "int"')
    assert checked_options(FakeSource.of(9), target, avro('"long"')) == avro('"long"')


def test_later_exports_decode_as_the_first_one_did(target: LocalTarget, latest: list[str]) -> None:
    identity = Identity.of(avro(f'{REGISTRY} "int"').write, cluster_id="cluster-A", topics={"orders": "id-1"})
    target.write_atomically("_kcli/export.json", json.dumps(identity.to_json()).encode())
    latest.append('"long"')
    assert checked_options(FakeSource.of(9), target, avro()) == avro(f'{REGISTRY} "int"')
    other = "registry:http://other"
    assert checked_options(FakeSource.of(9), target, avro(other)) == avro(f'{other} "long"')
