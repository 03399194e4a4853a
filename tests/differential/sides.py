"""Both brokers, asked at the same time, and the symbols that stand for what each of them names by itself.

A topic id, a member id or a producer id differs from broker to broker. Requests and compared responses hold
symbols of the same length instead: `Side` puts its broker's own ids into the bytes that it sends, and takes
them out of what it receives. Producer id 0 has no symbol: responses have it where they have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import decode_response
from kcli.protocol.messages.end_txn import EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdResponse
from kcli.protocol.schema.declaration import DecodeError, message_info
from kcli.protocol.schema.fields import fields_of
from tests.support.raw_client import RawClient, request_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE_SECONDS = 15.0
"""A broker that has not answered by then counts as silent. No generated request waits for so long."""

CLIENT_ID = "raw"
_TOPIC = b"\xd1\xffsymbol"
_PRODUCER = b"\x5a\xd1\xffpid"
"""The beginning of the 8 bytes of a producer id, which is a positive number."""
_SYMBOL = re.compile(
    rb"\xd1\xffsymbol.{8}|\x5a\xd1\xffpid..|[\w.-]{1,60}-00000000-0000-4000-8000-\d{12}|symbolic-member-\d{6}",
    re.DOTALL,
)
_UUID = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MEMBER_FIELDS = {"member_id", "leader"}


@dataclass(frozen=True, slots=True)
class NoResponse:
    """What came instead of a response: `closed`, `silent`, `nothing` (acks=0) or `undecodable`."""

    kind: str


class Side:
    """One broker: a connection to it, and the ids that it gave to the symbols."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.ids: dict[bytes, bytes] = {}
        self.symbols: dict[bytes, bytes] = {}
        self._correlation_id = 0
        self._client: RawClient | None = None
        self._login: tuple[str, str] | None = None
        self._source: str | None = None

    def become(self, login: tuple[str, str] | None, source: str) -> None:
        """From now on ask as a client at another address, with a name and password or without."""
        self.close()
        self._login, self._source = login, source

    def learn(self, symbol: bytes, own: bytes) -> None:
        """From now on `symbol` stands for the broker's `own` id."""
        self.ids[symbol] = own
        self.symbols[own] = symbol

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def send(self, request: object, version: int) -> None:
        """Send a request with the broker's own ids."""
        if self._client is None:
            self._client = RawClient(self.bootstrap, timeout=SILENCE_SECONDS, source=self._source)
            if self._login is not None:
                self._client.log_in(*self._login)
        self._correlation_id += 1
        frame = request_frame(request, version, self._correlation_id, CLIENT_ID)
        own = _SYMBOL.sub(lambda found: self.ids.get(found[0], found[0]), frame)
        try:
            self._client.send(own)
        except (BrokenPipeError, ConnectionResetError):
            self.close()

    def receive(self, request: object, version: int) -> Any:
        """The response to the last request, with symbols."""
        if self._client is None:
            return NoResponse("closed")
        try:
            frame = self._client.receive_frame()
        except TimeoutError:
            self.close()
            return NoResponse("silent")
        if frame is None:
            self.close()
            return NoResponse("closed")
        try:
            correlation_id, response = decode_response(message_info(type(request)).key, version, frame)
        except DecodeError:
            return NoResponse("undecodable")
        assert correlation_id == self._correlation_id
        self.to_symbols(response)
        return response

    def to_symbols(self, value: Any) -> None:
        """Replace the broker's own ids in a response, or a part of one."""
        for field in fields_of(type(value)):
            part = getattr(value, field.name)
            if field.struct is not None:
                for item in part if isinstance(part, list) else [part]:
                    if item is not None:
                        self.to_symbols(item)
            elif field.wire is not None and field.wire.kind == "uuid":
                if isinstance(part, bytes):
                    setattr(value, field.name, self.symbols.get(part, part))
            elif field.name == "producer_id" and part > 0:
                own = part.to_bytes(8, "big")
                setattr(value, field.name, int.from_bytes(self.symbols.get(own, own), "big"))
            elif field.name in _MEMBER_FIELDS and isinstance(part, str):
                setattr(value, field.name, self.symbols.get(part.encode(), part.encode()).decode())


class Pair:
    """Apache Kafka and kcli."""

    def __init__(self, apache: str, kcli: str) -> None:
        self.apache = Side("apache", apache)
        self.kcli = Side("kcli", kcli)
        self.foreign_topics: set[str] = set()
        self._numbers = count(1)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both, Apache Kafka first."""
        return self.apache, self.kcli

    def ask(self, request: object, version: int) -> tuple[Any, Any]:
        """Send a request to both and return what both answer."""
        for side in self.sides:
            side.send(request, version)
        apache, kcli = (side.receive(request, version) for side in self.sides)
        if self._learn_members(apache, kcli) or self._learn_producers(apache, kcli):
            for side, response in zip(self.sides, (apache, kcli), strict=True):
                side.to_symbols(response)
        return apache, kcli

    def tell(self, request: object, version: int, probe: object) -> tuple[Any, Any]:
        """Send a request that has no response unless the broker closes, and another one that tells which."""
        outcomes = []
        for side in self.sides:
            side.send(request, version)
            side.send(probe, 0)
            outcome = side.receive(probe, 0)
            outcomes.append(outcome if isinstance(outcome, NoResponse) else NoResponse("nothing"))
        return outcomes[0], outcomes[1]

    def set_up(self, request: object, version: int) -> Any:
        """Send a request that must succeed on both; return Apache Kafka's response."""
        responses = self.ask(request, version)
        for side, response in zip(self.sides, responses, strict=True):
            errors = [ErrorCode(code).name for code in error_codes(response) if code]
            assert not isinstance(response, NoResponse), f"{side.name}: {request} {response}"
            assert not errors, f"{side.name}: {errors} {request} {response}"
        return responses[0]

    def new_topic_symbol(self) -> bytes:
        """A topic id that no broker has."""
        return _TOPIC + next(self._numbers).to_bytes(8, "big")

    def _learn_members(self, apache: Any, kcli: Any) -> bool:
        """Give a symbol to a member id that both brokers made for the same request."""
        theirs, ours = getattr(apache, "member_id", None), getattr(kcli, "member_id", None)
        if not theirs or not ours or theirs == ours or type(apache) is not type(kcli):
            return False
        if theirs.encode() in self.apache.ids or ours.encode() in self.kcli.ids:
            return False
        symbol = _member_symbol(theirs, next(self._numbers))
        if symbol is None or len(theirs) != len(ours):
            return False
        self.apache.learn(symbol, theirs.encode())
        self.kcli.learn(symbol, ours.encode())
        return True

    def _learn_producers(self, apache: Any, kcli: Any) -> bool:
        """Give a symbol to a producer id that both brokers chose for the same request."""
        if type(apache) is not type(kcli) or not isinstance(apache, (InitProducerIdResponse, EndTxnResponse)):
            return False
        theirs, ours = apache.producer_id, kcli.producer_id
        known = _PRODUCER[0] << 56
        if min(theirs, ours) <= 0 or max(theirs, ours) >= known:
            return False
        symbol = _PRODUCER + (next(self._numbers) % 2**16).to_bytes(2, "big")
        self.apache.learn(symbol, theirs.to_bytes(8, "big"))
        self.kcli.learn(symbol, ours.to_bytes(8, "big"))
        return True

    def close(self) -> None:
        """Close both connections."""
        for side in self.sides:
            side.close()


def _member_symbol(member_id: str, number: int) -> bytes | None:
    made = _UUID.fullmatch(member_id)
    if made is not None:
        return f"{made[1]}-00000000-0000-4000-8000-{number:012d}".encode()
    return f"symbolic-member-{number:06d}".encode() if len(member_id) == 22 else None


def error_codes(value: Any) -> Iterator[int]:
    """Every error code of a response."""
    if isinstance(value, NoResponse):
        return
    for field in fields_of(type(value)):
        part = getattr(value, field.name)
        if field.struct is not None:
            for item in part if isinstance(part, list) else [part]:
                if item is not None:
                    yield from error_codes(item)
        elif field.name.endswith("error_code"):
            yield part
