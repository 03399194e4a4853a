"""Writes the decoder of one class in one version as Python source, and compiles it.

The function it makes is `decode(b, p, end) -> (object, position)`. What makes it fast:

- Neighbouring fields of fixed size, the length or count behind them and the byte that counts tags are one
  `struct.Struct`; integers of an array and what follows them are one more, cached by array length.
- Everything is inlined: loops, strings, nested structs, and compact lengths below 127, which are one byte.
- An array of rows of fixed fields is read by one `Struct.iter_unpack`.

What makes it safe: reading a fixed field or an index beyond the end raises. A string cut short leaves the
position beyond the end, where the next read raises or, at the very end, `MessageCodec` does. Counts of
structs are compared with the remaining bytes before any object is made. Decoders of requests also limit the
total number of array elements and tagged fields, because an element of one byte may become an object of a
hundred.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import repeat
from struct import Struct
from typing import Any

from kcli.protocol.schema.fields import Field, Fresh, fields_of, has_records
from kcli.protocol.schema.generated_source import GeneratedSource
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint

_MAX_CACHED_LENGTH = 256

_FEW_ROWS = 7
"""For up to this many rows a plain loop is faster than setting up `iter_unpack`."""


class Unpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """Array length -> unpacker of that many integers and the fixed fields that follow them."""

    __slots__ = ("_item", "_rest")

    def __init__(self, item: str, rest: str) -> None:
        super().__init__()
        self._item = item
        self._rest = rest

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        if length < 0:
            raise ValueError("a negative or forbidden null array length")
        made = Struct(f">{length}{self._item}{self._rest}").unpack_from
        if length <= _MAX_CACHED_LENGTH:
            self[length] = made
        return made


def minimum_size(struct: type[Any], version: int, flexible: bool) -> int:
    """Return the fewest bytes that a struct can take."""
    size = 1 if flexible else 0
    for field in fields_of(struct):
        if version in field.versions and not (flexible and field.is_tagged(version)):
            size += _minimum_field_size(field, version, flexible)
    return size


def _minimum_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if field.wire is None:
        assert field.struct is not None
        return 1 if version in field.nullable else minimum_size(field.struct, version, flexible)
    if field.wire.format:
        return Struct(">" + field.wire.format).size
    if flexible:
        return 1
    return 2 if field.wire.kind == "string" else 4


class _DecoderWriter:
    """Writes the source. `pending` holds fixed fields whose read is not written yet: (letter, target).

    `pending_array` is an array of integers in front of them: (letter, target, name of the length).
    """

    def __init__(self, version: int, flexible: bool, has_records: bool, max_elements: int | None) -> None:
        self.version = version
        self.flexible = flexible
        self.has_records = has_records
        self.is_counting = max_elements is not None
        self.pending: list[tuple[str, str]] = []
        self.pending_array: tuple[str, str, str] | None = None
        self.source = GeneratedSource(
            {"new": object.__new__, "repeat": repeat, "varint": decode_unsigned_varint}
        )
        self.emit = self.source.emit
        self.block = self.source.block
        self.fresh_name = self.source.fresh_name
        self.constant = self.source.constant

    def class_name(self, struct: type[Any]) -> str:
        return self.constant((struct.__name__, "class"), lambda: struct)

    def flush(self) -> None:
        """Write the one read that fills all pending targets."""
        if self.pending_array is None:
            self.read_fixed()
            return
        item, array, length = self.pending_array
        self.pending_array = None
        self.count_down(length)
        letters = "".join(letter for letter, _ in self.pending)
        targets = "".join(f", {target}" for _, target in self.pending) or ","
        family = self.constant(("ints", item, letters), lambda: Unpackers(item, letters))
        with self.block(f"if {length}:"):
            self.emit(f"*{array}{targets} = {family}[{length}](b, p)")
            self.emit(f"p += {Struct('>' + item).size} * {length} + {Struct('>' + letters).size}")
        with self.block("else:"):
            self.emit(f"{array} = []")
            self.read_fixed()

    def read_fixed(self) -> None:
        letters = "".join(letter for letter, _ in self.pending)
        targets = ", ".join(target for _, target in self.pending)
        if letters == "B":
            self.emit(f"{targets} = b[p]")
            self.emit("p += 1")
        elif letters:
            unpack = self.constant(("unpack", letters), lambda: Struct(">" + letters).unpack_from)
            comma = "," if len(self.pending) == 1 else ""
            self.emit(f"{targets}{comma} = {unpack}(b, p)")
            self.emit(f"p += {Struct('>' + letters).size}")
        self.pending = []

    def struct(self, struct: type[Any], variable: str) -> None:
        """Write the reading of a struct into the attributes of an existing object."""
        tagged = []
        for field in fields_of(struct):
            target = f"{variable}.{field.name}"
            if self.version not in field.versions:
                self.set_default(field, target)
            elif self.flexible and field.is_tagged(self.version):
                self.set_default(field, target)
                tagged.append(field)
            else:
                self.field(field, target)
        if self.flexible:
            self.tags(tagged, variable)

    def set_default(self, field: Field, target: str) -> None:
        default = field.default
        if not isinstance(default, Fresh):
            self.emit(f"{target} = {default!r}")
        elif default.factory is list:
            self.emit(f"{target} = []")
        else:
            inner = self.fresh_name("o")
            self.emit(f"{target} = {inner} = new({self.class_name(default.factory)})")
            for part in fields_of(default.factory):
                self.set_default(part, f"{inner}.{part.name}")

    def tags(self, tagged: list[Field], variable: str) -> None:
        count = self.fresh_name("t")
        self.pending.append(("B", count))
        self.flush()
        with self.block(f"if {count}:"):
            self.emit(f"if {count} > 127: {count}, p = varint(b, p - 1)")
            self.count_down(count)
            with self.block(f"for _ in repeat(None, {count}):"):
                number, stop = self.fresh_name("tag"), self.fresh_name("e")
                self.emit(f"{number}, p = varint(b, p)")
                self.emit(f"{stop}, p = varint(b, p)")
                self.emit(f"{stop} += p")
                self.emit(f"if {stop} > end: raise ValueError('a tagged field beyond the end')")
                for field in tagged:
                    assert field.tag is not None
                    with self.block(f"if {number} == {field.tag.number}:"):
                        self.field(field, f"{variable}.{field.name}")
                        self.flush()
                        wrong_size = f"{field.name}: not as long as its tag says"
                        self.emit(f"if p != {stop}: raise ValueError('{wrong_size}')")
                        self.emit("continue")
                self.emit(f"p = {stop}")

    def field(self, field: Field, target: str) -> None:
        if field.is_array:
            self.array(field, target)
        elif field.struct is not None:
            self.nested(field, field.struct, target)
        else:
            assert field.wire is not None
            if field.wire.format:
                self.pending.append((field.wire.format, target))
            else:
                self.blob(field, target)

    def nested(self, field: Field, struct: type[Any], target: str) -> None:
        inner = self.fresh_name("o")
        if self.version not in field.nullable:
            self.emit(f"{target} = {inner} = new({self.class_name(struct)})")
            self.struct(struct, inner)
            return
        present = self.fresh_name("n")
        self.pending.append(("b", present))
        self.flush()
        self.emit(f"if {present} {'<=' if field.is_tagged(self.version) else '<'} 0:")
        self.emit(f"    {target} = None")
        with self.block("else:"):
            self.emit(f"{target} = {inner} = new({self.class_name(struct)})")
            self.struct(struct, inner)
            self.flush()

    def length(self, letter: str, *, is_text: bool = False) -> str:
        """Write the reading of a length or count, and return the variable: -1 for null."""
        length = self.fresh_name("n")
        self.pending.append(("B" if self.flexible else letter, length))
        self.flush()
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.emit(f"{length}, p = varint(b, p - 1)")
                if is_text:
                    self.emit(f"if {length} > 32768: raise ValueError('a string longer than 32767 bytes')")
            self.emit(f"{length} -= 1")
        return length

    def blob(self, field: Field, target: str) -> None:
        """Write the reading of a string, of bytes or of record data."""
        assert field.wire is not None
        kind = field.wire.kind
        length = self.length("h", is_text=True) if kind == "string" else self.length("i")
        stop = self.fresh_name("e")
        self.emit(f"if {length} < 0:")
        is_nullable = self.version in field.nullable
        if is_nullable:
            self.emit(f"    if {length} < -1: raise ValueError('{field.name}: a negative length')")
            self.emit(f"    {target} = None")
        else:
            self.emit(f"    raise ValueError('{field.name}: a negative length, or null')")
        with self.block("else:") if is_nullable else nullcontext():
            self.emit(f"{stop} = p + {length}")
            self.emit(f"{target} = {self.slice(kind, stop)}")
            self.emit(f"p = {stop}")

    def slice(self, kind: str, stop: str) -> str:
        match kind:
            case "records":
                return f"b[p:{stop}]"
            case "bytes":
                return f"bytes(b[p:{stop}])" if self.has_records else f"b[p:{stop}]"
            case _:
                # What is not UTF-8 becomes U+FFFD, as in Java.
                if self.has_records:
                    return f"str(b[p:{stop}], 'utf-8', 'replace')"
                return f"b[p:{stop}].decode('utf-8', 'replace')"

    def array(self, field: Field, target: str) -> None:
        length = self.length("i")
        is_nullable = self.version in field.nullable
        if is_nullable:
            self.emit(f"if {length} == -1:")
            self.emit(f"    {target} = None")
        with self.block("else:") if is_nullable else nullcontext():
            wire = field.wire
            if wire is None:
                self.rows(field, length, target)
            elif len(wire.format) == 1:
                self.pending_array = (wire.format, target, length)
                if is_nullable:
                    self.flush()
            else:
                self.check_count(field, length, 16 if wire.format else 1)
                self.items(field, length, target)

    def check_count(self, field: Field, length: str, size: int) -> None:
        limit = "end - p" if size == 1 else f"(end - p) // {size}"
        self.emit(f"if not 0 <= {length} <= {limit}:")
        self.emit(f"    raise ValueError('{field.name}: a count of %d' % {length})")
        self.count_down(length)

    def count_down(self, count: str) -> None:
        """Write the check that so many more elements are allowed, if the decoder has a limit."""
        if self.is_counting:
            self.emit(f"room -= {count}")
            self.emit("if room < 0: raise ValueError('too many elements')")

    def items(self, field: Field, length: str, target: str) -> None:
        """Write the reading of an array of strings, byte strings or ids."""
        items, item = self.fresh_name("x"), self.fresh_name("s")
        self.emit(f"{target} = {items} = []")
        with self.block(f"for _ in repeat(None, {length}):"):
            one = Field(field.name)
            one.wire = field.wire
            self.field(one, item)
            self.flush()
            self.emit(f"{items}.append({item})")

    def rows(self, field: Field, length: str, target: str) -> None:
        """Write the reading of an array of structs."""
        struct = field.struct
        assert struct is not None
        size = max(1, minimum_size(struct, self.version, self.flexible))
        self.check_count(field, length, size)
        rows, row = self.fresh_name("x"), self.fresh_name("o")
        is_fixed = self.fixed_rows(struct, f"{target} = {rows}", row, length, size)
        with self.block("else:") if is_fixed else nullcontext():
            self.emit(f"{target} = {rows} = []")
            with self.block(f"for _ in repeat(None, {length}):"):
                self.emit(f"{row} = new({self.class_name(struct)})")
                self.emit(f"{rows}.append({row})")
                self.struct(struct, row)
                self.flush()

    def fixed_rows(self, struct: type[Any], target: str, row: str, length: str, size: int) -> bool:
        """Write the reading of many rows by one `iter_unpack`, and return whether rows are of fixed size.

        In a flexible version each row ends with a byte that counts its tags, and all of these bytes must be
        zero. The caller has to write an `else`.
        """
        letters, values, others = "", [], []
        for field in fields_of(struct):
            if self.version not in field.versions or (self.flexible and field.is_tagged(self.version)):
                others.append(field)
            elif field.wire is not None and field.wire.format and not field.is_array:
                letters += field.wire.format
                values.append(f"{row}.{field.name}")
            else:
                return False
        if not values:
            return False
        stop, rows = self.fresh_name("e"), target.rpartition(" ")[2]
        condition = f"{length} > {_FEW_ROWS}"
        if self.flexible:
            letters += "x"
            condition += f" and p + {size} * {length} <= end"
            condition += f" and not any(b[p + {size - 1}:p + {size} * {length}:{size}])"
        unpack = self.constant(("rows", letters), lambda: Struct(">" + letters).iter_unpack)
        with self.block(f"if {condition}:"):
            self.emit(f"{stop} = p + {size} * {length}")
            self.emit(f"{target} = list(map(new, repeat({self.class_name(struct)}, {length})))")
            columns = f"({', '.join(values)}{',' if len(values) == 1 else ''})"
            with self.block(f"for {row}, {columns} in zip({rows}, {unpack}(b[p:{stop}])):"):
                for field in others:
                    self.set_default(field, f"{row}.{field.name}")
                if not others:
                    self.emit("pass")
            self.emit(f"p = {stop}")
        return True


def generate_decoder(
    struct: type[Any], version: int, flexible: bool, max_elements: int | None = None
) -> Callable[..., tuple[Any, int]]:
    """Return the compiled `decode(b, p, end)`: of `bytes`, or of a `memoryview` if it holds record data.

    It raises `struct.error`, `IndexError` or `ValueError` for malformed input, and for more array elements
    and tagged fields than `max_elements`.
    """
    writer = _DecoderWriter(version, flexible, has_records(struct, version), max_elements)
    if max_elements is not None:
        writer.emit(f"room = {max_elements}")
    writer.emit(f"o = new({writer.class_name(struct)})")
    writer.struct(struct, "o")
    writer.flush()
    writer.emit("return o, p")
    return writer.source.compile("decode(b, p, end)", f"decoder of {struct.__name__} version {version}")
