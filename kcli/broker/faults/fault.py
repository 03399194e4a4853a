"""Fault: one thing that goes wrong until it is cleared. Values only; `FaultEngine` and `Faults` apply them.

| kind | what goes wrong |
|---|---|
| `drop` | requests get no response; their connection stays open |
| `disconnect` | requests get no response; their connection is closed |
| `delay` | requests are handled later |
| `error` | requests are answered with an error |
| `cut` | a node can no longer reach another, neither to replicate nor to find the controller |
| `slow` | calls of a node to another arrive later |
| `lose` | the next calls of a node to another are lost |
| `isolate` | every link to and from a node is cut; clients still reach it |
| `freeze` | a node's followers copy nothing; the rest of the node works |
| `fill-disk` | every write to a node's log directories fails: no space left on device |
| `hold-markers` | coordinators write no markers until it is cleared: transactions stay prepared |
| `hang-transactions` | markers get lost and count as written: partitions keep open transactions |

With `after`, the request is carried out and only its response suffers, as for a producer whose
acknowledgement is lost. `fault_of` makes a fault from the same words on the command line, in a scenario and
in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import flag, text, whole
from kcli.broker.network.apis import APIS
from kcli.errors import UsageError, nearest_hint
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


REQUEST_KINDS = ("drop", "disconnect", "delay", "error")
LINK_KINDS = ("cut", "slow", "lose")
NODE_KINDS = ("isolate", "freeze", "fill-disk")
MARKER_KINDS = ("hold-markers", "hang-transactions")
KINDS = (*REQUEST_KINDS, *LINK_KINDS, *NODE_KINDS, *MARKER_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault:
    """A fault of the requests that match every given field. Names may be patterns such as `app-*`."""

    kind: str
    node: int | None = None
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    next: int | None = None
    """The number of requests that suffer before the fault ends; None: all, until it is cleared."""
    probability: float = 1.0
    delay_ms: int = 0
    code: ErrorCode | None = None
    after: bool = False

    def concerns(self, api: str, client_id: str) -> bool:
        """Return whether the header of a request fits; `concerns_any` asks for its topics."""
        return (self.api is None or self.api == api) and (
            self.client_id is None or fnmatchcase(client_id, self.client_id)
        )

    def concerns_any(self, topics: Collection[str]) -> bool:
        """Return whether one of the topics of a request fits."""
        return self.topic is None or any(fnmatchcase(topic, self.topic) for topic in topics)

    def __str__(self) -> str:
        what = {"delay": f" {self.delay_ms} ms", "error": f" {self.code.name}" if self.code else ""}
        words = [f"{self.kind}{what.get(self.kind, '')}", *(["after"] if self.after else [])]
        for name, value in (("api", self.api), ("node", self.node), ("client-id", self.client_id)):
            words += [f"{name} {value}"] if value is not None else []
        words += [f"topic {self.topic}"] if self.topic is not None else []
        words += [f"probability {self.probability:g}"] if self.probability < 1 else []
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """A fault of the calls from one node to another; with `both`, in either direction."""

    kind: str
    source: int
    target: int
    both: bool = True
    delay_ms: int = 0
    next: int = 0

    @property
    def links(self) -> list[tuple[int, int]]:
        """The pairs (from, to) that suffer."""
        there = (self.source, self.target)
        return [there, (self.target, self.source)] if self.both else [there]

    def __str__(self) -> str:
        what = {"slow": f" {self.delay_ms} ms", "lose": f" {self.next} calls"}.get(self.kind, "")
        arrow = "<->" if self.both else "->"
        return f"{self.kind}{what} {self.source}{arrow}{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """A fault of a whole node: `isolate`, `freeze` or `fill-disk`."""

    kind: str
    node: int

    def __str__(self) -> str:
        return f"{self.kind} node {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFault:
    """A fault of the markers that transaction coordinators write: `hold-markers` or `hang-transactions`.

    Markers of tools, as `kafka-transactions.sh abort` writes them, do not suffer. The name of the topic may
    be a pattern. `next` is the number of partitions whose markers get lost before the fault ends.
    """

    kind: str
    topic: str | None = None
    next: int | None = None

    def concerns(self, topic: str) -> bool:
        """Return whether the markers for a topic suffer."""
        return self.topic is None or fnmatchcase(topic, self.topic)

    def __str__(self) -> str:
        return self.kind if self.topic is None else f"{self.kind} topic {self.topic}"


Fault = RequestFault | LinkFault | NodeFault | MarkerFault

_FILTERS = ("api", "node", "client_id", "topic", "next", "probability", "after")
_LINK = ("from", "to", "one_way")
OPTIONS: dict[str, tuple[str, ...]] = {
    "drop": _FILTERS,
    "disconnect": _FILTERS,
    "delay": (*_FILTERS, "delay_ms"),
    "error": (*_FILTERS, "code"),
    "cut": _LINK,
    "slow": (*_LINK, "delay_ms"),
    "lose": (*_LINK, "next"),
    **dict.fromkeys(NODE_KINDS, ("node",)),
    "hold-markers": ("topic",),
    "hang-transactions": ("topic", "next"),
}
"""The options of each kind."""
_NEEDED: dict[str, tuple[str, ...]] = {
    "delay": ("delay_ms",),
    "error": ("code",),
    "cut": ("from", "to"),
    "slow": ("from", "to", "delay_ms"),
    "lose": ("from", "to", "next"),
    **dict.fromkeys(NODE_KINDS, ("node",)),
}


def fault_of(kind: str, options: Mapping[str, Any]) -> Fault:
    """Return the fault of a kind with these options. Raises `UsageError`."""
    if kind not in OPTIONS:
        raise UsageError(f"there is no fault `{kind}`", hint=nearest_hint(kind, KINDS) or one_of(KINDS))
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in OPTIONS[kind]:
            raise UsageError(f"`{kind}` takes no `{name}`", hint=takes(OPTIONS[kind]))
    for name in _NEEDED.get(kind, ()):
        if name not in given:
            raise UsageError(f"`{kind}` needs `{name}`")
    if kind in REQUEST_KINDS:
        return _request_fault(kind, given)
    if kind in NODE_KINDS:
        return NodeFault(kind=kind, node=whole(given, "node"))
    if kind in MARKER_KINDS:
        return MarkerFault(
            kind=kind,
            topic=text(given, "topic") if "topic" in given else None,
            next=whole(given, "next", least=1) if "next" in given else None,
        )
    source, target = whole(given, "from"), whole(given, "to")
    if source == target:
        raise UsageError(f"`{kind}` is between two nodes, not {source} and itself")
    return LinkFault(
        kind=kind,
        source=source,
        target=target,
        both=not flag(given, "one_way"),
        delay_ms=whole(given, "delay_ms", least=1) if kind == "slow" else 0,
        next=whole(given, "next", least=1) if kind == "lose" else 0,
    )


def _request_fault(kind: str, given: Mapping[str, Any]) -> RequestFault:
    return RequestFault(
        kind=kind,
        node=whole(given, "node") if "node" in given else None,
        api=api_name(text(given, "api")) if "api" in given else None,
        client_id=text(given, "client_id") if "client_id" in given else None,
        topic=text(given, "topic") if "topic" in given else None,
        next=whole(given, "next", least=1) if "next" in given else None,
        probability=_probability(given),
        delay_ms=whole(given, "delay_ms", least=1) if kind == "delay" else 0,
        code=error_code(given["code"]) if kind == "error" else None,
        after=flag(given, "after"),
    )


def _probability(options: Mapping[str, Any]) -> float:
    value = options.get("probability", 1.0)
    try:
        probability = float(value)
    except (TypeError, ValueError):
        probability = -1.0
    if not 0 < probability <= 1:
        raise UsageError(f"`probability` is above 0 and at most 1, not {value!r}")
    return probability


def api_name(name: str) -> str:
    """Return the name of an API, given in any case or as its number. Raises `UsageError`."""
    names = {api.name.lower(): api.name for api in APIS} | {str(api.key): api.name for api in APIS}
    found = names.get(name.lower())
    if found is None:
        near = nearest_hint(name, [api.name for api in APIS])
        raise UsageError(
            f"there is no API `{name}`", hint=near or "`kcli cluster api-versions` lists the APIs"
        )
    return found


def error_code(value: object) -> ErrorCode:
    """Return an error, given by its name or number. Raises `UsageError`."""
    known = {str(int(code)): code for code in ErrorCode} | dict(ErrorCode.__members__)
    found = known.get(str(value).upper())
    which = "a name or number of Kafka's, as NOT_CONTROLLER or 41"
    if found is ErrorCode.NONE:
        raise UsageError(f"`{value}` is Kafka's code for no error", hint=which)
    if found is None:
        errors = [name for name in ErrorCode.__members__ if name != "NONE"]
        raise UsageError(f"there is no error `{value}`", hint=nearest_hint(str(value), errors) or which)
    return found


def takes(names: Iterable[str]) -> str:
    """Return a hint that lists the options."""
    return f"it takes {', '.join(f'`{name}`' for name in sorted(names))}"


def one_of(names: Iterable[str]) -> str:
    """Return a hint that lists the values."""
    return f"one of {', '.join(names)}"


class ActiveFault:
    """A fault that was added and not yet cleared, and its hits. The seed and the number decide its chance."""

    def __init__(self, number: int, fault: Fault, *, seed: int, spent: Callable[[ActiveFault], None]) -> None:
        self.number = number
        self.fault = fault
        self.hits = 0
        """The number of requests, or of markers for a partition, that have met the fault."""
        self._random = Random(f"{seed}/{number}")
        self._spent = spent

    @property
    def request_fault(self) -> RequestFault:
        """The fault, which must be a `RequestFault`."""
        assert isinstance(self.fault, RequestFault)
        return self.fault

    @property
    def left(self) -> int | None:
        """The number of those that will still meet the fault, None without a limit."""
        limit = getattr(self.fault, "next", None)
        return None if not limit else limit - self.hits

    def strikes(self) -> bool:
        """Return whether a request that fits meets the fault, and count the hit."""
        if self.left == 0 or self._random.random() >= self.request_fault.probability:
            return False
        self._hit()
        return True

    def strikes_marker(self, topic: str) -> bool:
        """Return whether a marker for a partition of the topic gets lost, and count the hit."""
        assert isinstance(self.fault, MarkerFault)
        if self.left == 0 or not self.fault.concerns(topic):
            return False
        self._hit()
        return True

    def holds_marker(self, topic: str, *, is_new: bool) -> bool:
        """Return whether a marker for a partition of the topic waits; count the hit if the marker is new."""
        assert isinstance(self.fault, MarkerFault)
        if not self.fault.concerns(topic):
            return False
        self.hits += is_new
        return True

    def _hit(self) -> None:
        self.hits += 1
        if self.left == 0:
            self._spent(self)
