"""Declarations that say what declarations can say, and what is made of them."""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    bytes_,
    codec,
    f64,
    fresh,
    i8,
    i16,
    i32,
    i64,
    ignorable,
    message,
    nullable,
    record,
    records_,
    string,
    struct,
    tag,
    u8,
    u16,
    u32,
    uuid,
    v,
)


@struct
class Leader:
    node: i32 = -1
    epoch: i32 = -1


@message(key=900, versions="0-5", flexible="3+")
class ThingRequest:
    name: string
    size: Annotated[i64, v("1-3")] = 7
    hint: Annotated[i16, v("2+"), ignorable] = 0
    note: Annotated[string | None, nullable("2+")] = None
    leader: Annotated[Leader | None, v("1+")] = None
    parts: list[i32]
    others: Annotated[list[Leader], v("4+"), tag(3)] = fresh(list)
    first: Annotated[Leader, v("4+"), tag(1)] = fresh(Leader)
    label: Annotated[string | None, v("4+"), tag(0)] = None
    last: Annotated[Leader | None, v("5+"), tag(4)] = fresh(Leader)


@struct
class Scalars:
    a: i8
    b: i16
    c: i32
    d: i64
    e: u8
    f: u16
    g: u32
    h: f64
    i: boolean
    j: uuid
    k: string
    m: bytes_
    n: records_ | None


@struct
class Row:
    number: i32
    flag: Annotated[boolean, v("1+")] = False
    extra: Annotated[i16, v("2+"), tag(0)] = 5


@struct
class Table:
    rows: list[Row]


@struct
class Texts:
    names: list[string] | None
    ids: list[uuid]
    blobs: list[bytes_]


@record(type=12, versions="0-1", flexible="0+")
class ThingRecord:
    name: string


def thing(**values: object) -> ThingRequest:
    return ThingRequest(**{"name": "n", "parts": [], **values})  # type: ignore[arg-type]


def round_trip(value: ThingRequest, version: int) -> ThingRequest:
    decoded, _ = codec(ThingRequest, version).decode(codec(ThingRequest, version).encode(value))
    return decoded
