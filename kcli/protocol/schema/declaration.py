"""Declarations of messages: one class per struct covers all its versions, and codecs are derived from it.

    @message(key=0, versions="0-13", flexible="9+")
    class ProduceResponse:
        responses: list[TopicProduceResponse]
        throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0

Field order, names, defaults and version ranges are the published protocol's. The marks of a field:

| mark | meaning |
|---|---|
| `v("1+")` | the versions that have the field; all, without it |
| `X \\| None` | null is allowed in every version that has the field … |
| `nullable("3+")` | … or only in these |
| `tag(0, "10+")` | travels in the tag section under this number; the versions default to all |
| `ignorable` | a version without the field drops a value that is not the default; else encoding raises |
| `= fresh(list)`, `= fresh(Struct)` | a default made anew for each object |

Objects are slotted, mutable and carry no version: a field that a version lacks reads as its default.
Constructors take keywords only. `codec(cls, version)` compiles an encoder and a decoder on first use.
"""

from __future__ import annotations

from struct import error as StructError
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast, dataclass_transform

from kcli.errors import KcliError
from kcli.protocol.schema.fields import (
    ALWAYS,
    LATEST,
    WIRES,
    Fresh,
    Ignorable,
    Nullable,
    Tag,
    Versions,
    has_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.corruption import Buffer

T = TypeVar("T")

i8 = Annotated[int, WIRES["i8"]]
i16 = Annotated[int, WIRES["i16"]]
i32 = Annotated[int, WIRES["i32"]]
i64 = Annotated[int, WIRES["i64"]]
u8 = Annotated[int, WIRES["u8"]]
u16 = Annotated[int, WIRES["u16"]]
u32 = Annotated[int, WIRES["u32"]]
f64 = Annotated[float, WIRES["f64"]]
boolean = Annotated[bool, WIRES["boolean"]]
string = Annotated[str, WIRES["string"]]
uuid = Annotated[bytes, WIRES["uuid"]]
"""16 raw bytes."""
bytes_ = Annotated[bytes, WIRES["bytes"]]
records_ = Annotated[bytes | bytearray | memoryview, WIRES["records"]]
"""Record batches; a decoder does not copy them, it returns a `memoryview` of the frame."""

v = Versions
ignorable = Ignorable()


def nullable(versions: str) -> Nullable:
    """Return the mark of a field that may be null in these versions."""
    return Nullable(Versions(versions))


def tag(number: int, versions: str | None = None) -> Tag:
    """Return the mark of a field that is tagged in these versions, or in all flexible ones."""
    return Tag(number, ALWAYS if versions is None else Versions(versions))


def fresh(factory: type[T]) -> T:
    """Declare a default that is made anew for every object."""
    return cast("T", Fresh(factory))


MAX_REQUEST_ELEMENTS = 100_000
"""Array elements and tagged fields in one request: far more than the largest cluster's clients send.

Without a limit a request of 100 MB can name fifty million topics, which take gigabytes as objects.
"""


class DecodeError(KcliError):
    """Malformed bytes: cut short, out of range. `reason` is the message without the name of what was read."""

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


def reason_of_failure(error: Exception) -> str:
    """Return why decoding failed: reading beyond the end raises errors whose words mean nothing to users."""
    return "cut short" if isinstance(error, (StructError, IndexError)) else str(error)


class EncodeError(KcliError):
    """A value that does not fit its field, or for which the version has no field."""


class _Message:
    """Base of all declared classes: a constructor compiled on first use, equality and a repr."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: object) -> None:
        _compile_constructor(type(self))
        type(self).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable, compared by value

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__slots__)
        return f"{type(self).__name__}({values})"


def _compile_constructor(cls: type[Any]) -> None:
    """Give a class a constructor with its own keywords."""
    defaults: dict[str, Any] = cls.__field_defaults__
    names: dict[str, Any] = {"_defaults": defaults, "_missing": object()}
    parameters, body = [], []
    for name in cls.__slots__:
        default = defaults.get(name)
        if isinstance(default, Fresh):
            names[f"_{name}"] = default.factory
            parameters.append(f"{name}=_missing")
            body.append(f"    self.{name} = _{name}() if {name} is _missing else {name}")
        else:
            parameters.append(f"{name}=_defaults[{name!r}]" if name in defaults else name)
            body.append(f"    self.{name} = {name}")
    signature = f"self, *, {', '.join(parameters)}" if parameters else "self"
    exec(f"def __init__({signature}):\n" + "\n".join(body or ["    pass"]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = names["__init__"]


def _make(cls: type[T]) -> type[T]:
    """Return the class with slots. Defaults move aside, because a slot cannot have a class attribute."""
    namespace = dict(cls.__dict__)
    names = tuple(namespace.get("__annotations__", ()))
    namespace["__field_defaults__"] = {name: namespace.pop(name) for name in names if name in namespace}
    namespace["__slots__"] = names
    del namespace["__dict__"], namespace["__weakref__"]
    return cast("type[T]", type(cls.__name__, (_Message,), namespace))


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct that messages and records are made of."""
    return _make(cls)


@dataclass_transform(kw_only_default=True)
def message(*, key: int, versions: str, flexible: str = "none") -> Callable[[type[T]], type[T]]:
    """Declare a request or a response of the API with this key, named `<Api>Request` or `<Api>Response`."""
    _FLEXIBLE_FROM[key] = Versions(flexible).first if flexible != "none" else LATEST + 1
    return _declaration(key, versions, flexible)


@dataclass_transform(kw_only_default=True)
def record(*, type: int, versions: str, flexible: str = "none") -> Callable[[type[T]], type[T]]:
    """Declare a record of an internal topic or of the metadata log, with its type id."""
    return _declaration(type, versions, flexible)


def _declaration(key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    def declare(cls: type[T]) -> type[T]:
        made = _make(cls)
        name = cls.__name__.removesuffix("Request").removesuffix("Response")
        _INFOS[made] = (name, key, versions, flexible)
        if cls.__name__.endswith("Response"):
            _RESPONSES[key] = made
        return made

    return declare


class MessageInfo:
    """What a `@message` or `@record` declares. `key` is the API key or the record's type id."""

    __slots__ = ("flexible_from", "key", "max_version", "min_version", "name")

    def __init__(self, name: str, key: int, versions: Versions, flexible: Versions) -> None:
        self.name = name
        self.key = key
        self.min_version = versions.first
        self.max_version = versions.last
        self.flexible_from = flexible.first if flexible.last else None
        """The first flexible version, or None."""

    @property
    def response(self) -> type[Any]:
        return _RESPONSES[self.key]

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


_INFOS: dict[type[Any], MessageInfo | tuple[str, int, str, str]] = {}
_RESPONSES: dict[int, type[Any]] = {}
_FLEXIBLE_FROM: dict[int, int] = {}


def message_info(cls: type[Any]) -> MessageInfo:
    """Return the facts of a `@message` or `@record` class; raise `TypeError` for anything else."""
    found = _INFOS.get(cls)
    if found is None:
        raise TypeError(f"{cls.__name__} is neither a message nor a record")
    if isinstance(found, tuple):
        name, key, versions, flexible = found
        found = _INFOS[cls] = MessageInfo(name, key, Versions(versions), Versions(flexible))
    return found


def response_class(api_key: int) -> type[Any]:
    """Return the response class of an API whose module has been imported; raise `KeyError` for others."""
    return _RESPONSES[api_key]


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether a version of an API is flexible; False for an API that no imported module declares."""
    return version >= _FLEXIBLE_FROM.get(api_key, LATEST + 1)


class MessageCodec(Generic[T]):
    """The encoder and the decoder of one class in one version, each compiled on first use."""

    __slots__ = ("_decode", "_encode", "_keeps_buffer", "cls", "flexible", "version")

    def __init__(self, cls: type[T], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self._encode: Callable[[T], list[Any]] = self._compile_encoder
        self._decode: Callable[[Buffer, int, int], tuple[T, int]] = self._compile_decoder
        self._keeps_buffer = has_records(cls, version)

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value; raise `EncodeError` if it does not fit this version."""
        return b"".join(self.encode_parts(value))

    def encode_parts(self, value: T) -> list[Any]:
        """Return the bytes of a value in parts.

        Record data is a part of its own, the very object given: it may be anything with a length, such as a
        slice of a file that is never read into memory.
        """
        try:
            return self._encode(value)
        except (StructError, ValueError, TypeError, AttributeError, OverflowError) as error:
            from kcli.protocol.schema.encoder import reason_not_encodable

            reason = reason_not_encodable(self.cls, value, self.version) or str(error)
            raise EncodeError(f"{self.cls.__name__} does not fit version {self.version}: {reason}") from error

    def decode(self, buffer: Buffer, offset: int = 0, end: int | None = None) -> tuple[T, int]:
        """Return the object that starts at `offset` and the offset behind it.

        Nothing at or after `end` is read. Raises `DecodeError` for malformed bytes.
        """
        data = buffer
        start = offset
        if self._keeps_buffer:
            if end is not None or type(buffer) is not memoryview:
                data = memoryview(buffer)[:end]
        elif end is not None or type(buffer) is not bytes:
            # Without record data to keep, copying pays: slicing and decoding text is faster on bytes.
            data = bytes(memoryview(buffer)[offset:end])
            start = 0
        size = len(data)
        try:
            value, position = self._decode(data, start, size)
            if position > size:
                raise ValueError("cut short")
        except (StructError, IndexError, ValueError, OverflowError) as error:
            reason = self._reason(error, data, start)
            what = f"{self.cls.__name__} version {self.version}"
            raise DecodeError(f"malformed {what}: {reason}", reason=reason) from error
        return value, position - start + offset

    def _reason(self, error: Exception, data: Buffer, start: int) -> str:
        """Return why bytes are malformed; those of a request, which anyone may send, are not read again."""
        from kcli.protocol.schema.malformed import reason_not_decodable

        if not self.cls.__name__.endswith("Request"):
            found = reason_not_decodable(self.cls, data, start, self.version, flexible=self.flexible)
            if found is not None:
                return found
        return reason_of_failure(error)

    # The generators are imported on first use: commands that send nothing do not need them.

    def _compile_encoder(self, value: T) -> list[Any]:
        from kcli.protocol.schema.encoder import generate_encoder

        self._encode = generate_encoder(self.cls, self.version, self.flexible)
        return self._encode(value)

    def _compile_decoder(self, buffer: Buffer, offset: int, end: int) -> tuple[T, int]:
        from kcli.protocol.schema.decoder import generate_decoder

        limit = MAX_REQUEST_ELEMENTS if self.cls.__name__.endswith("Request") else None
        self._decode = generate_decoder(self.cls, self.version, self.flexible, limit)
        return self._decode(buffer, offset, end)


_CODECS: dict[tuple[type[Any], int, bool | None], MessageCodec[Any]] = {}


def codec(cls: type[T], version: int, flexible: bool | None = None) -> MessageCodec[T]:
    """Return the codec of a class for one version.

    `flexible` must be given for a bare struct; for a message or record it follows from the version. Raises
    `ValueError` for a version outside the declared range.
    """
    found = _CODECS.get((cls, version, flexible))
    if found is None:
        found = _CODECS[cls, version, flexible] = _new_codec(cls, version, flexible)
    return found


def _new_codec(cls: type[T], version: int, flexible: bool | None) -> MessageCodec[T]:
    if cls in _INFOS:
        info = message_info(cls)
        if not info.min_version <= version <= info.max_version:
            raise ValueError(f"{cls.__name__} has no version {version}")
        if flexible is None:
            flexible = info.is_flexible(version)
    return MessageCodec(cls, version, bool(flexible))
