"""ConfigDefinition: the name, type, default, check and description of one configuration.

A definition is a row of a table (`topic_definitions`, `broker_definitions`). It parses text into a typed
value and prints a value as Kafka does (class `ConfigDef`). A definition in a class body is also a descriptor:
on the class it reads as itself, on an instance as the value stored under its field name, so that
`config.num_partitions` is typed and cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from enum import Enum
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from kcli.errors import KcliError
from kcli.protocol.configs import NO_EFFECT, ConfigType

T = TypeVar("T")
V = TypeVar("V")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = float.fromhex("0x1.fffffffffffffp+1023")


class UpdateMode(Enum):
    """How a broker configuration may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidConfig(KcliError):
    """A value that a configuration may not have, or a configuration that does not exist."""


Check = Callable[[Any], str | None]
"""Returns what is wrong with a parsed value, or None."""


def at_least(minimum: float) -> Check:
    """Accept numbers from `minimum` on."""

    def check(value: float) -> str | None:
        return None if value >= minimum else f"must be at least {minimum}"

    return check


def between(minimum: float, maximum: float) -> Check:
    """Accept numbers from `minimum` to `maximum`, both included."""

    def check(value: float) -> str | None:
        return None if minimum <= value <= maximum else f"must be between {minimum} and {maximum}"

    return check


def between_or(minimum: int, maximum: int, special: int) -> Check:
    """Accept a range and one number outside it."""

    def check(value: float) -> str | None:
        if value == special or minimum <= value <= maximum:
            return None
        return f"must be between {minimum} and {maximum}, or {special}"

    return check


def not_empty(value: str) -> str | None:
    """Accept any text but the empty one."""
    return None if value.strip() else "must not be empty"


def one_of(*choices: str) -> Check:
    """Accept one of these words; of a list, any number of them."""

    def check(value: str | tuple[str, ...]) -> str | None:
        words: Iterable[str] = [value] if isinstance(value, str) else value
        if all(word in choices for word in words):
            return None
        return f"must be {'one' if isinstance(value, str) else 'any'} of {', '.join(choices)}"

    return check


class ConfigDefinition(Generic[T]):
    """One configuration. `default` is a parsed value, or None where Kafka has no value to show.

    kcli does not act on it if `has_effect` is False. An `internal` one is shown only where it is set.
    """

    __slots__ = ("check", "default", "doc", "field", "has_effect", "internal", "mode", "name", "type")

    def __init__(
        self,
        name: str,
        type: ConfigType,
        default: T,
        doc: str,
        *,
        check: Check | None = None,
        mode: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
        has_effect: bool = True,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.doc = doc
        self.check = check
        self.mode = mode
        self.internal = internal
        self.has_effect = has_effect
        self.field = name.replace(".", "_")

    def __repr__(self) -> str:
        return f"ConfigDefinition({self.name!r}, {self.type.name})"

    @overload
    def __get__(self, instance: None, owner: type) -> ConfigDefinition[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> ConfigDefinition[T] | T:
        # Not a data descriptor: a value in the instance's own dict is found first, without this call.
        return self if instance is None else self.default

    @property
    def documentation(self) -> str:
        """The description as users read it."""
        return self.doc if self.has_effect else f"{self.doc} {NO_EFFECT}".lstrip()

    @property
    def is_sensitive(self) -> bool:
        """True if the value must never be shown: a password, or a property that Kafka has no type for.

        The levels of loggers have no type either, but they act.
        """
        return self.type is ConfigType.PASSWORD or (self.type is ConfigType.UNKNOWN and not self.has_effect)

    @property
    def is_list(self) -> bool:
        """True if values may be appended and subtracted."""
        return self.type is ConfigType.LIST

    @property
    def default_text(self) -> str | None:
        """The default as Kafka shows it."""
        return self.to_text(self.default)

    def parse(self, text: str) -> T:
        """Return the value of `text`; raise `InvalidConfig` if it has no valid one."""
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError as error:
            raise InvalidConfig(f"invalid value `{text}` for `{self.name}`: {error}") from None
        wrong = self.check(value) if self.check is not None else None
        if wrong is not None:
            raise InvalidConfig(f"invalid value `{text}` for `{self.name}`: {wrong}")
        return value  # type: ignore[no-any-return]  # the type table says which

    def to_text(self, value: T | None) -> str | None:
        """Return a parsed value as Kafka shows it (`ConfigDef.convertToString`)."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case tuple():
                return ",".join(value)
            case float():
                return _double_text(value)
            case _:
                return str(value)


def _parse_integer(bits: int, kind: str) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        # int() alone would also accept underscores and non-ASCII digits.
        digits = text[1:] if text[:1] in {"-", "+"} else text
        if not (digits.isascii() and digits.isdigit() and -limit <= int(text) < limit):
            raise ValueError(f"not a number of type {kind}")
        return int(text)

    return parse


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected `true` or `false`")
    return text.lower() == "true"


def _parse_double(text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError("not a number of type DOUBLE")
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    """Split at commas; repeated words count once, and an empty text is an empty list."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text else ()


def _double_text(value: float) -> str:
    """Return a double as Java prints it: plain from 0.001 to ten million, else with an exponent."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # Importing it takes 1 ms, and few brokers have such a number.

    shortest = Decimal(repr(value)).normalize()
    sign, digits, _ = shortest.as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{shortest.adjusted()}"


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _parse_integer(32, "INT"),
    ConfigType.SHORT: _parse_integer(16, "SHORT"),
    ConfigType.LONG: _parse_integer(64, "LONG"),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
    ConfigType.UNKNOWN: str,
}


class Options(TypedDict, total=False):
    """The parts of a definition that most rows leave out."""

    check: Check | None
    mode: UpdateMode
    internal: bool
    has_effect: bool


def boolean(name: str, default: bool, doc: str, **options: Unpack[Options]) -> ConfigDefinition[bool]:
    """Define a configuration that is true or false."""
    return ConfigDefinition(name, ConfigType.BOOLEAN, default, doc, **options)


def integer(name: str, default: int, doc: str, **options: Unpack[Options]) -> ConfigDefinition[int]:
    """Define a 32-bit number."""
    return ConfigDefinition(name, ConfigType.INT, default, doc, **options)


def long(name: str, default: int, doc: str, **options: Unpack[Options]) -> ConfigDefinition[int]:
    """Define a 64-bit number."""
    return ConfigDefinition(name, ConfigType.LONG, default, doc, **options)


def string(name: str, default: str, doc: str, **options: Unpack[Options]) -> ConfigDefinition[str]:
    """Define a text."""
    return ConfigDefinition(name, ConfigType.STRING, default, doc, **options)


def short(name: str, default: int, doc: str, **options: Unpack[Options]) -> ConfigDefinition[int]:
    """Define a 16-bit number."""
    return ConfigDefinition(name, ConfigType.SHORT, default, doc, **options)


def double(name: str, default: float, doc: str, **options: Unpack[Options]) -> ConfigDefinition[float]:
    """Define a number with a fraction."""
    return ConfigDefinition(name, ConfigType.DOUBLE, default, doc, **options)


def class_name(name: str, default: str, doc: str, **options: Unpack[Options]) -> ConfigDefinition[str]:
    """Define the name of a Java class."""
    return ConfigDefinition(name, ConfigType.CLASS, default, doc, **options)


def password(name: str, doc: str, **options: Unpack[Options]) -> ConfigDefinition[str | None]:
    """Define a text that is never shown."""
    return ConfigDefinition(name, ConfigType.PASSWORD, None, doc, **options)


def words(
    name: str, default: tuple[str, ...], doc: str, **options: Unpack[Options]
) -> ConfigDefinition[tuple[str, ...]]:
    """Define a list of words."""
    return ConfigDefinition(name, ConfigType.LIST, default, doc, **options)


def optional(definition: ConfigDefinition[T]) -> ConfigDefinition[T | None]:
    """Return the same definition without a default."""
    return ConfigDefinition(
        definition.name,
        definition.type,
        None,
        definition.doc,
        check=definition.check,
        mode=definition.mode,
        internal=definition.internal,
        has_effect=definition.has_effect,
    )


def taken(row: ConfigDefinition[T], convert: Callable[[T], V] | None = None) -> Any:  # noqa: ANN401  # T or V
    """Return a dataclass field for the converted value of a row, by default the row's; `view` fills it."""
    default = row.default if convert is None else convert(row.default)
    return field(default=default, metadata={"row": row, "convert": convert})


def view(cls: type[V], settings: object) -> V:
    """Return a dataclass whose fields are all `taken`, with the values that `settings` has for their rows."""
    values = {}
    for each in fields(cls):  # type: ignore[arg-type]  # a dataclass
        value, convert = getattr(settings, each.metadata["row"].field), each.metadata["convert"]
        values[each.name] = value if convert is None else convert(value)
    return cls(**values)
