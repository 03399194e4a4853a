"""A fault from words and values, the same on the command line, in a scenario and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.api import APIS
from kcli.broker.config.option_values import flag, text, whole
from kcli.broker.faults.fault import LINK_KINDS, REQUEST_KINDS, Fault, LinkFault, NodeFault, RequestFault
from kcli.errors import UsageError, nearest_hint
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NODE_KINDS = ("isolate", "freeze", "fill-disk")
KINDS = (*REQUEST_KINDS, *LINK_KINDS, *NODE_KINDS)

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
    "isolate": ("node",),
    "freeze": ("node",),
    "fill-disk": ("node",),
}
"""What may be said of each kind."""
_NEEDED: dict[str, tuple[str, ...]] = {
    "delay": ("delay_ms",),
    "error": ("code",),
    "cut": ("from", "to"),
    "slow": ("from", "to", "delay_ms"),
    "lose": ("from", "to", "next"),
    "isolate": ("node",),
    "freeze": ("node",),
    "fill-disk": ("node",),
}


def fault_of(kind: str, options: Mapping[str, Any]) -> Fault:
    """Return the fault that the words say. Raises `UsageError` for what makes no sense."""
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


# --- single values -----------------------------------------------------------------------------------


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
    """Return an API's name as it is published, given in any case or as its number. Raises `UsageError`."""
    names = {api.name.lower(): api.name for api in APIS} | {str(api.key): api.name for api in APIS}
    found = names.get(name.lower())
    if found is None:
        near = nearest_hint(name, [api.name for api in APIS])
        raise UsageError(
            f"there is no API `{name}`", hint=near or "`kcli cluster api-versions` shows those there are"
        )
    return found


def error_code(value: object) -> ErrorCode:
    """Return an error by its name or number. Raises `UsageError`."""
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
    """Return a hint at what can be said."""
    return f"it takes {', '.join(f'`{name}`' for name in sorted(names))}"


def one_of(names: Iterable[str]) -> str:
    """Return a hint at what there is."""
    return f"one of {', '.join(names)}"
