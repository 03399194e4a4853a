"""JsonReader: the input of `produce --input-format json`, one object a line, as `consume -o json` prints it.

    {"partition":0,"timestamp":1795249684955,"headers":[["trace","a1"]],"key":"alice","value":{"base64":"/w=="}}

Every field may be missing. A key, a value and the value of a header are text, null, or an object with the
base64 of their bytes; with a serializer they may be numbers and booleans. `topic`, `offset` and
`timestamp_type` are those of the record that was read, and mean nothing here. Empty lines are passed over.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError, UsageError, nearest_hint

if TYPE_CHECKING:
    from kcli.commands.produce.line_reader import Header, Placed
    from kcli.commands.shared.serdes import Convert

IGNORED = ("topic", "offset", "timestamp_type")
FIELDS = ("partition", "timestamp", "headers", "key", "value")
MOST_PARTITION = 2**31 - 1
TIMES = range(-1, 2**63)
"""The timestamps of records: milliseconds since 1970, -1 for none."""

BYTES = 'text, null or {"base64": "..."}'


class Number(str):
    """A number as it is written, which a serializer reads."""


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


class JsonReader:
    """Reads records from lines of JSON, and counts the lines for its error messages."""

    is_plain = False

    def __init__(
        self,
        key_serializer: Convert | None = None,
        value_serializer: Convert | None = None,
        *,
        keeps_partitions: bool = True,
    ) -> None:
        """`keeps_partitions`: a record goes to the partition that it names."""
        self._serializers = {"key": key_serializer, "value": value_serializer}
        self._keeps_partitions = keeps_partitions
        self._source = ""
        self.line_number = 0

    def begin(self, source: str | None) -> None:
        """Begin with the first line of an input; `source` is the name of a file, if it is one of several."""
        self.line_number = 0
        self._source = "" if source is None else f"`{source}`, "

    def records(self, lines: Iterable[bytes]) -> Iterator[Placed]:
        """Yield a record for each line; raise `UsageError` for one that is none."""
        for line in lines:
            self.line_number += 1
            if not line or line.isspace():
                yield None
                continue
            try:
                yield self._parse(line)
            except KcliError as error:
                where = f"{self._source}line {self.line_number}"
                raise UsageError(f"{where}: {error.message}", hint=error.hint) from None

    def _parse(self, line: bytes) -> Placed:
        try:
            found = DECODER.decode(line.decode())
        except UnicodeDecodeError as error:
            raise UsageError(f"byte {error.start + 1} is not UTF-8") from None
        except json.JSONDecodeError as error:
            reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
            raise UsageError(f"not JSON, at character {error.colno}: {reason}") from None
        except RecursionError:
            raise UsageError("not a record: too many brackets") from None
        if not isinstance(found, dict):
            raise UsageError("not an object", hint='a record is an object: {"key": "...", "value": "..."}')
        for name in found:
            if name not in FIELDS and name not in IGNORED:
                hint = nearest_hint(name, FIELDS) or f"a record has {', '.join(FIELDS)}"
                raise UsageError(f"there is no field `{name}`", hint=hint)
        partition = whole(found.get("partition"), "partition", range(MOST_PARTITION + 1))
        return (
            self._field(found.get("key"), "key"),
            self._field(found.get("value"), "value"),
            headers_of(found.get("headers")),
            partition if self._keeps_partitions else None,
            whole(found.get("timestamp"), "timestamp", TIMES),
        )

    def _field(self, value: object, name: str) -> bytes | None:
        serialize = self._serializers[name]
        if serialize is None or value is None or isinstance(value, dict):
            return data_of(value, name)
        text = str(value).lower() if isinstance(value, bool) else value
        if not isinstance(text, str):
            raise UsageError(f"`{name}` is neither a number nor {BYTES}")
        return serialize(encoded(text, name))


def headers_of(value: object) -> tuple[Header, ...]:
    """Return the headers in a list of pairs; null is none."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageError("`headers` is not a list of [name, value]")
    return tuple(header_of(pair, f"headers[{number}]") for number, pair in enumerate(value))


def header_of(pair: object, name: str) -> Header:
    match pair:
        case [str(key), value] if not isinstance(key, Number):
            encoded(key, name)
            return key, data_of(value, name)
    raise UsageError(f"`{name}` is not a pair of a name and a value")


def data_of(value: object, name: str) -> bytes | None:
    """Return the bytes of a text, of an object with base64, or of null."""
    match value:
        case None:
            return None
        case Number() | bool():
            option = (
                f"`--{name}-serializer` says how numbers are written" if name in ("key", "value") else None
            )
            raise UsageError(f"`{name}` is a number or a boolean, not {BYTES}", hint=option)
        case str():
            return encoded(value, name)
        case {"base64": str(text), **rest} if not rest and not isinstance(text, Number):
            try:
                return a2b_base64(text.encode("ascii"), strict_mode=True)
            except ValueError:
                raise UsageError(f"the base64 of `{name}` is damaged") from None
    raise UsageError(f"`{name}` is not {BYTES}")


def encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"`{name}` has half of a surrogate pair") from None


def whole(value: object, name: str, allowed: range) -> int | None:
    """Return a whole number, None for null."""
    if value is None:
        return None
    digits: Any = value
    if isinstance(value, Number) and len(digits) < 20 and digits.removeprefix("-").isdecimal():
        number = int(digits)
        if number in allowed:
            return number
    raise UsageError(f"`{name}` is not a number from {allowed.start} to {allowed.stop - 1}")
