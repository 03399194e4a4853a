"""Shrinks a request that is answered differently to the smallest one that still shows the difference."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tests.differential.requests import Request, sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.differential.world import World

TRIALS = 60


def shrunk(request: Request, shows: Callable[[Request], bool]) -> Request:
    """The smallest request found for which `shows` still holds, which must hold for `request`."""
    trials = TRIALS
    is_smaller = True
    while is_smaller and trials > 0:
        is_smaller = False
        for candidate in _smaller(request):
            trials -= 1
            if shows(candidate):
                request, is_smaller = candidate, True
                break
            if trials <= 0:
                break
    return request


def _smaller(request: Request) -> Iterator[Request]:
    """The request with one element or value less: the largest parts go first."""
    for number, (owner, field) in enumerate(sites(request.body, request.version)):
        value = getattr(owner, field.name)
        if isinstance(value, list):
            for index in range(len(value)):
                yield _with(request, number, value[:index] + value[index + 1 :])
        elif field.struct is None and field.wire is not None and field.wire.kind != "records":
            default = field.make_default()
            if value != default:
                yield _with(request, number, default)


def _with(request: Request, number: int, value: Any) -> Request:
    changed = deepcopy(request)
    owner, field = list(sites(changed.body, changed.version))[number]
    setattr(owner, field.name, deepcopy(value))
    return changed


def moved(request: Request, before: World, after: World) -> Request:
    """The same request in another world: its topics, groups, ids and members are those of that world."""
    changed = deepcopy(request)
    names = {symbol: name for name, symbol in before.topic_ids.items()}
    members = dict(zip(before.members, after.members, strict=False))

    def translated(value: Any) -> Any:
        if isinstance(value, str):
            return members.get(value, value.replace(before.prefix, after.prefix))
        if isinstance(value, bytes) and value in names:
            return after.topic_ids.get(names[value].replace(before.prefix, after.prefix), value)
        return value

    for owner, field in sites(changed.body, changed.version):
        value = getattr(owner, field.name)
        if field.struct is None:
            setattr(
                owner,
                field.name,
                [translated(each) for each in value] if isinstance(value, list) else translated(value),
            )
    return changed
