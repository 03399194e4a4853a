"""Writes the encoder of one class in one version as Python source, and compiles it.

The function it makes is `encode(o) -> list of parts`. What makes it fast:

- Neighbouring fields of fixed size, the length or count behind them and the byte that counts tags are one
  `struct.Struct`. Arrays of integers join them: one `Struct` per combination of array lengths, cached.
- Everything is inlined: loops, strings, nested structs.
- Parts go into a list for one `b"".join`, which beats packing into a buffer of the final size.

A field that the version lacks must hold its default, unless it is ignorable. An encoder does not say which
value it could not encode: after a failure `reason_not_encodable` goes through the fields to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from contextlib import nullcontext
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from kcli.protocol.schema.fields import Field, Fresh, Wire, fields_of
from kcli.protocol.schema.generated_source import GeneratedSource
from kcli.protocol.schema.unsigned_varint import encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_CACHED_SHAPES = 1024

_ONE_BYTE_COUNTS = 127
"""Compact counts below this are one byte: what travels is the count plus one."""


class Packers(dict[Any, Callable[..., bytes]]):
    """Array lengths -> packer of a run of fixed fields and arrays of integers.

    `parts` are the letters of the run; an array is its item's letter in upper or lower case between
    brackets, such as "[i]" with a four-byte count and "<i>" with a compact one.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[str, ...]) -> None:
        super().__init__()
        self._parts = parts

    def __missing__(self, lengths: int | tuple[int, ...]) -> Callable[..., bytes]:
        remaining = [lengths] if isinstance(lengths, int) else list(lengths)
        letters = ">"
        for part in self._parts:
            if part[0] not in "[<":
                letters += part
                continue
            length = remaining.pop(0)
            if part[0] == "[":
                letters += "i"
            else:
                letters += "B" if length < _ONE_BYTE_COUNTS else f"{len(encode_unsigned_varint(length + 1))}s"
            letters += f"{max(length, 0)}{part[1]}"
        if len(self) >= _MAX_CACHED_SHAPES:
            self.clear()
        packer = self[lengths] = Struct(letters).pack
        return packer


class _EncoderWriter:
    """Writes the source. `pending` holds fixed fields not written yet: (letters, value expressions)."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.add = "add"
        self.pending: list[tuple[str, str]] = []
        self.pending_lengths: list[str] = []
        self.source = GeneratedSource({"varint": encode_unsigned_varint})
        self.emit = self.source.emit
        self.block = self.source.block
        self.fresh_name = self.source.fresh_name
        self.constant = self.source.constant

    def flush(self) -> None:
        """Write one pack of everything pending."""
        if not self.pending:
            return
        parts = tuple(part for part, _ in self.pending)
        values = ", ".join(value for _, value in self.pending if value)
        if self.pending_lengths:
            family = self.constant(("shapes", *parts), lambda: Packers(parts))
            self.emit(f"{self.add}({family}[{', '.join(self.pending_lengths)}]({values}))")
        elif parts == ("x",):
            self.emit(f"{self.add}(b'\\0')")
        else:
            letters = ">" + "".join(parts)
            pack = self.constant(("pack", letters), lambda: Struct(letters).pack)
            self.emit(f"{self.add}({pack}({values}))")
        self.pending = []
        self.pending_lengths = []

    def struct(self, struct: type[Any], variable: str) -> None:
        tagged = []
        for field in fields_of(struct):
            value = f"{variable}.{field.name}"
            if self.version not in field.versions:
                self.refuse_absent(field, value)
            elif self.flexible and field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, value)
        if self.flexible:
            self.tags(tagged, variable)

    def refuse_absent(self, field: Field, value: str) -> None:
        if not field.ignorable:
            self.emit(f"if {self.is_not_default(field, value)}:")
            self.emit(f"    raise ValueError('it has no field {field.name}')")

    def is_not_default(self, field: Field, value: str) -> str:
        """Return a boolean expression: does this value differ from the field's default?"""
        default = field.default
        if default is None:
            return f"({value} is not None)"
        if not isinstance(default, Fresh):
            return f"({value} != {default!r})"
        if default.factory is list:
            return f"({value} is None or len({value}) > 0)" if field.nullable.last else f"(len({value}) > 0)"
        parts = [self.is_not_default(part, f"{value}.{part.name}") for part in fields_of(default.factory)]
        if field.nullable.last:
            parts.insert(0, f"{value} is None")
        return f"({' or '.join(parts)})"

    def tags(self, tagged: list[Field], variable: str) -> None:
        """Write the tag section. Its count, nearly always zero, joins the pending fields."""
        if not tagged:
            self.pending.append(("x", ""))
            return
        tagged.sort(key=lambda field: field.tag.number if field.tag else 0)
        present = {field.name: self.fresh_name("t") for field in tagged}
        for field in tagged:
            self.emit(f"{present[field.name]} = {self.is_not_default(field, f'{variable}.{field.name}')}")
        self.pending.append(("B", " + ".join(present.values())))
        self.flush()
        for field in tagged:
            with self.block(f"if {present[field.name]}:"):
                self.tagged_field(field, f"{variable}.{field.name}")

    def tagged_field(self, field: Field, value: str) -> None:
        assert field.tag is not None
        outer, self.add = self.add, self.fresh_name("add")
        parts, body = self.fresh_name("parts"), self.fresh_name("body")
        self.emit(f"{parts} = []")
        self.emit(f"{self.add} = {parts}.append")
        self.field(field, value)
        self.flush()
        self.add = outer
        self.emit(f"{body} = b''.join({parts})")
        self.emit(f"{self.add}({encode_unsigned_varint(field.tag.number)!r} + varint(len({body})))")
        self.emit(f"{self.add}({body})")

    def field(self, field: Field, value: str) -> None:
        if field.is_array:
            self.array(field, value)
        elif field.struct is not None:
            self.nested(field, field.struct, value)
        else:
            assert field.wire is not None
            if not field.wire.format:
                self.blob(field, value)
                return
            if field.wire.kind == "uuid":
                # `struct` would pad or cut anything else to 16 bytes.
                self.emit(f"if len({value}) != 16: raise ValueError('{field.name}: not 16 bytes')")
            self.pending.append((field.wire.format, value))

    def nested(self, field: Field, struct: type[Any], value: str) -> None:
        inner = self.fresh_name("o")
        self.emit(f"{inner} = {value}")
        if self.version not in field.nullable:
            self.struct(struct, inner)
            return
        self.flush()
        # Null is -1, except in a tag: there Kafka writes a varint, and null is 0.
        null = r"b'\0'" if field.is_tagged(self.version) else r"b'\xff'"
        self.emit(f"if {inner} is None:")
        self.emit(f"    {self.add}({null})")
        with self.block("else:"):
            self.pending.append(("b", "1"))
            self.struct(struct, inner)
            self.flush()

    def length(self, letter: str, length: str, *, is_text: bool = False) -> None:
        """Write a length or count; `length` is -1 for null."""
        if not self.flexible:
            self.pending.append((letter, length))
            self.flush()
            return
        self.pending.append(("B", f"{length} + 1 if {length} < 127 else ({length} + 1) & 127 | 128"))
        self.flush()
        with self.block(f"if {length} > 126:"):
            if is_text:
                self.emit(f"if {length} > 32767: raise ValueError('a string longer than 32767 bytes')")
            self.emit(f"{self.add}(varint(({length} + 1) >> 7))")

    def blob(self, field: Field, value: str) -> None:
        """Write a string, bytes or record data."""
        assert field.wire is not None
        kind = field.wire.kind
        content, length = self.fresh_name("s"), self.fresh_name("n")
        is_nullable = self.version in field.nullable
        if is_nullable:
            self.emit(f"if {value} is None:")
            self.emit(f"    {content} = b''")
            self.emit(f"    {length} = -1")
        with self.block("else:") if is_nullable else nullcontext():
            self.emit(f"{content} = {value}.encode()" if kind == "string" else f"{content} = {value}")
            self.emit(f"{length} = len({content})")
        self.length("h" if kind == "string" else "i", length, is_text=kind == "string")
        self.emit(f"{self.add}({content})")

    def array(self, field: Field, value: str) -> None:
        items, length = self.fresh_name("x"), self.fresh_name("n")
        self.emit(f"{items} = {value}")
        if self.version in field.nullable:
            self.emit(f"if {items} is None:")
            self.emit(f"    {items} = ()")
            self.emit(f"    {length} = -1")
            self.emit("else:")
            self.emit(f"    {length} = len({items})")
        else:
            self.emit(f"{length} = len({items})")
        wire = field.wire
        if wire is not None and len(wire.format) == 1:
            self.integers(wire.format, items, length)
            return
        self.length("i", length)
        item = self.fresh_name("o")
        with self.block(f"for {item} in {items}:"):
            if wire is not None:
                one = Field(field.name)
                one.wire = wire
                self.field(one, item)
            else:
                assert field.struct is not None
                self.struct(field.struct, item)
            self.flush()

    def integers(self, letter: str, items: str, length: str) -> None:
        if self.flexible:
            count = f"{length} + 1 if {length} < {_ONE_BYTE_COUNTS} else varint({length} + 1)"
            self.pending.append((f"<{letter}>", f"{count}, *{items}"))
        else:
            self.pending.append((f"[{letter}]", f"{length}, *{items}"))
        self.pending_lengths.append(length)


def generate_encoder(struct: type[Any], version: int, flexible: bool) -> Callable[[Any], list[Any]]:
    """Return the compiled `encode(o)`.

    It raises `struct.error`, `ValueError`, `TypeError` or `AttributeError` for a value that does not fit.
    """
    writer = _EncoderWriter(version, flexible)
    writer.emit("out = []")
    writer.emit("add = out.append")
    writer.struct(struct, "o")
    writer.flush()
    writer.emit("return out")
    return writer.source.compile("encode(o)", f"encoder of {struct.__name__} version {version}")


_SHORT_TEXT = 60


def reason_not_encodable(struct: type[Any], value: object, version: int) -> str | None:
    """Return the first field whose value cannot be encoded, and why, such as "topics[3].name: null"."""
    return next(_problems(struct, value, version), None)


def _problems(struct: type[Any], value: object, version: int) -> Iterator[str]:
    if type(value) is not struct:
        yield f": a {type(value).__name__} in place of a {struct.__name__}"
        return
    for field in fields_of(struct):
        content = getattr(value, field.name, None)
        if version not in field.versions:
            if not field.ignorable and content != field.make_default():
                yield f"{field.name}: not in this version"
        elif content is None:
            if version not in field.nullable:
                yield f"{field.name}: null"
        else:
            for problem in _content_problems(field, content, version):
                yield field.name + problem


def _content_problems(field: Field, content: object, version: int) -> Iterator[str]:
    if not field.is_array:
        yield from _item_problems(field, content, version, "")
    elif not isinstance(content, Sequence) or isinstance(content, str):
        yield f": a {type(content).__name__} in place of a list"
    else:
        for index, item in enumerate(content):
            yield from _item_problems(field, item, version, f"[{index}]")


def _item_problems(field: Field, item: object, version: int, where: str) -> Iterator[str]:
    if field.struct is not None:
        for problem in _problems(field.struct, item, version):
            yield f"{where}{'' if problem.startswith(':') else '.'}{problem}"
    else:
        assert field.wire is not None
        reason = _wire_problem(field.wire, item)
        if reason is not None:
            yield f"{where}: {reason}"


def _wire_problem(wire: Wire, item: object) -> str | None:
    shown = repr(item)
    shown = shown if len(shown) <= _SHORT_TEXT else shown[:_SHORT_TEXT] + "…"
    if wire.kind == "uuid":
        return None if isinstance(item, bytes) and len(item) == 16 else f"not 16 bytes: {shown}"
    try:
        if isinstance(item, str) and wire.kind == "string":
            return None if len(item.encode()) <= 0x7FFF else f"a string longer than 32767 bytes: {shown}"
        if wire.format:
            Struct(">" + wire.format).pack(item)
            return None
    except (StructError, ValueError):
        pass
    else:
        if wire.kind != "string" and isinstance(item, Sized) and not isinstance(item, str):
            return None
    return f"not of type {wire.kind}: {shown}"
