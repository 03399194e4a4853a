"""Avro values: with a schema that is given, and with those that a registry has."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import KcliError, UsageError
from kcli.spark.decode.formats.avro_values import AvroValues, pin_schema
from kcli.spark.decode.formats.formats import column_format, pinned
from kcli.spark.split import FieldFormat


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def encode(schema: Any, datum: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return stream.getvalue()


def decode(given: Any, *values: bytes | None) -> tuple[pa.Array, dict[int, str]]:
    made = AvroValues(given if isinstance(given, str) else json.dumps(given))
    column, bad = made.decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    assert column.type == made.type
    return column, dict(bad)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
CASES = [
    ("long", -7, pa.int64(), -7),
    (["null", "string"], "x", pa.string(), "x"),
    (["null", "string"], None, pa.string(), None),
    (["int", "long"], 2**40, pa.int64(), 2**40),
    (["null", "float", "double"], 1.5, pa.float64(), 1.5),
    ("null", None, pa.null(), None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "fixed", "name": "F", "size": 2}, b"\xff\x00", pa.binary(), b"\xff\x00"),
    ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32()), [1, None]),
    ({"type": "map", "values": "boolean"}, {"a": True}, pa.map_(pa.string(), pa.bool_()), [("a", True)]),
    (logical("bytes", "decimal", precision=6, scale=2), Decimal("1.2"), pa.decimal128(6, 2), Decimal("1.2")),
    (logical("int", "date"), date(2024, 2, 29), pa.date32(), date(2024, 2, 29)),
    (logical("int", "time-millis"), time(1, 2, 3), pa.time64("us"), time(1, 2, 3)),
    (logical("long", "timestamp-millis"), MOMENT, pa.timestamp("us", "UTC"), MOMENT),
    (logical("long", "timestamp-micros"), MOMENT, pa.timestamp("us", "UTC"), MOMENT),
    (logical("long", "local-timestamp-micros"), MOMENT.replace(tzinfo=None), pa.timestamp("us"),
     MOMENT.replace(tzinfo=None)),
    (logical("string", "uuid"), UUID(int=5), pa.string(), str(UUID(int=5))),
    ({"type": "map", "values": {"type": "array", "items": logical("string", "uuid")}}, {"a": [UUID(int=1)]},
     pa.map_(pa.string(), pa.list_(pa.string())), [("a", [str(UUID(int=1))])]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "datum", "type_", "expected"), CASES, ids=lambda one: str(one)[:30])
def test_data_become_arrow_values(schema: Any, datum: Any, type_: pa.DataType, expected: Any) -> None:
    whole = record(("v", schema), ("behind", "string"))
    column, bad = decode(whole, encode(whole, {"v": datum, "behind": "!"}), None)
    assert bad == {}
    assert column.type == pa.struct([("v", type_), ("behind", pa.string())])
    assert column.to_pylist() == [{"v": expected, "behind": "!"}, None]


def test_a_named_schema_may_be_used_again() -> None:
    place = record(("x", "double"), name="Place")
    schema = record(("here", place), ("there", ["null", "Place"]))
    column, bad = decode(schema, encode(schema, {"here": {"x": 1.0}, "there": {"x": 2.0}}))
    assert (column.to_pylist(), bad) == ([{"here": {"x": 1.0}, "there": {"x": 2.0}}], {})


def test_bytes_that_are_not_of_the_schema_are_bad() -> None:
    schema = record(("n", "long"), ("s", "string"))
    good = encode(schema, {"n": 1, "s": "x"})
    column, bad = decode(schema, good, good[:-1], good + b"\0", b"", b"\x02\xff", b"\x02\x02\xff")
    assert column.to_pylist() == [{"n": 1, "s": "x"}, None, None, None, None, None]
    assert sorted(bad) == [1, 2, 3, 4, 5]
    assert "1 bytes too many" in bad[2]


def test_a_number_that_no_column_holds_is_bad() -> None:
    schema = record(("d", logical("bytes", "decimal", precision=3)))
    column, bad = decode(schema, encode(schema, {"d": Decimal(5)}), b"\x0e" + b"\x7f" * 7)
    assert column.to_pylist() == [{"d": Decimal(5)}, None]
    assert list(bad) == [1]


EVERYTHING = record(*((f"f{number}", case[0]) for number, case in enumerate(CASES)))
WRITTEN = encode(EVERYTHING, {f"f{number}": case[1] for number, case in enumerate(CASES)})


@given(st.lists(st.tuples(st.integers(0, len(WRITTEN) - 1), st.integers(0, 255)), max_size=4), st.integers(0))
def test_damaged_data_are_bad_or_other_data(changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(WRITTEN)
    for at, byte in changes:
        damaged[at] = byte
    column, bad = decode(EVERYTHING, WRITTEN, bytes(damaged[: cut % (len(damaged) + 1)]))
    assert set(bad) <= {1}
    assert column[0].is_valid


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '"money"',
        '{"type": "enum", "name": "E"}',
        json.dumps(["int", "string"]),
        json.dumps(record(("next", ["null", "R"]))),
        json.dumps(logical("bytes", "decimal", precision=50)),
        "",
        "registry:http://localhost:1",
        "registry:ftp://localhost {}",
        "registry:http://me:secret@localhost {}",
    ],
)
def test_schemas_without_a_type_are_refused(schema: str) -> None:
    with pytest.raises(UsageError) as refused:
        column_format(FieldFormat("avro", schema))
    assert "secret" not in refused.value.message


class Registry(BaseHTTPRequestHandler):
    """Answers as a schema registry does."""

    answers: ClassVar[dict[str, Any]] = {}
    authorization: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.authorization.append(self.headers["Authorization"])
        answer = self.answers.get(self.path)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(500 if answer == "broken" else 200 if answer else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of this machine goes through no proxy that its user has."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.answers = {}
    Registry.authorization = []
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"registry:http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


OLD = record(("id", "int"))
NEW = {**OLD, "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "default": "?"}]}


def framed(number: int, datum: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + datum


def test_data_of_any_version_are_read_as_the_latest(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_SCHEMA_REGISTRY_AUTH", "me:secret")
    Registry.answers = {
        "/subjects/a%2Fb-value/versions/latest": {"schema": json.dumps(NEW), "id": 2, "version": 2},
        "/schemas/ids/1": {"schema": json.dumps(OLD)},
        "/schemas/ids/2": {"schema": json.dumps(NEW)},
        "/schemas/ids/3": {"schema": json.dumps(record(("id", "string")))},
    }
    given = pinned(FieldFormat("avro", registry), ["a/b"], "value")
    assert given.schema is not None
    assert pinned(given, ["a/b"], "value") == given
    old, new = encode(OLD, {"id": 5}), encode(NEW, {"id": 6, "name": "x"})
    values = [
        framed(1, old),
        framed(2, new),
        framed(1, old),
        framed(9, old),
        framed(9, old),
        framed(3, old),
        b"\1" + old,
        b"\0",
    ]
    column, bad = decode(given.schema, *values)
    assert column.to_pylist()[:3] == [{"id": 5, "name": "?"}, {"id": 6, "name": "x"}, {"id": 5, "name": "?"}]
    assert sorted(bad) == [3, 4, 5, 6, 7]
    assert "has no schema 9" in bad[3]
    assert "no schema id" in bad[7]
    # Every schema is asked for once, the unknown one too.
    assert Registry.authorization == ["Basic bWU6c2VjcmV0"] * 5


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "has no subject"),
        ("broken", "answers 500"),
        (b"<html>", "does not answer in JSON"),
        ({"version": 1}, "gives no schema"),
        ({"schema": "{}", "schemaType": "PROTOBUF"}, "is not Avro: PROTOBUF"),
        ({"schema": "{}", "references": [{"name": "x"}]}, "refers to other schemas"),
    ],
)
def test_what_a_registry_does_not_give_is_an_error(registry: str, answer: Any, message: str) -> None:
    Registry.answers = {"/subjects/t-key/versions/latest": answer} if answer else {}
    with pytest.raises(KcliError, match=message):
        pin_schema(registry, ["t"], "key")


def test_topics_of_different_schemas_are_refused(registry: str) -> None:
    for topic, schema in (("a", OLD), ("b", NEW)):
        Registry.answers[f"/subjects/{topic}-value/versions/latest"] = {"schema": json.dumps(schema)}
    with pytest.raises(UsageError, match="value of a, b"):
        pin_schema(registry, ["a", "b"], "value")
    assert pin_schema(registry, ["a"], "value").startswith(registry)


def test_a_registry_that_cannot_be_reached_ends_the_work() -> None:
    with pytest.raises(KcliError, match=r"cannot reach the schema registry at http://127\.0\.0\.1:1"):
        pin_schema("registry:http://127.0.0.1:1", ["t"], "value")
    with pytest.raises(KcliError, match="cannot reach"):
        decode('registry:http://127.0.0.1:1 "int"', framed(1, b"\2"))
